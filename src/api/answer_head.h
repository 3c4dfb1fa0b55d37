#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/negotiation.h"
#include "api/version.h"
#include "base/time.h"
#include "http/response.h"

namespace sluice::api {

// The header fields of an answer with rows. 200 and 304 have the same ones, except for the type (RFC 9110, 15.4.5).
struct AnswerHead {
  const Preference& preference;
  std::string_view cache_control;  // lives as long as the answer; empty if absent
  std::optional<Duration> age{};   // of rows that may be older than the database's

  // Sets all fields of a 200 except the ETag.
  void fill(http::Response& response) const;
  // 304 for a client that has the representation with this tag. The tag is empty if the client's condition matches any
  // representation.
  [[nodiscard]] http::Response not_modified(const Conditions& conditions, std::string_view tag) const;

 private:
  void fill_common(http::Response& response) const;
};

}  // namespace sluice::api
