#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/negotiation.h"
#include "api/version.h"
#include "base/time.h"
#include "http/response.h"

namespace sluice::api {

// The header fields of an answer with rows. A 304 has those of the 200, except Content-Type (RFC 9110, 15.4.5).
struct AnswerHead {
  const Preference& preference;
  std::string_view cache_control;  // lives as long as the answer; empty if absent
  std::optional<Duration> age{};   // the Age field; set if the rows may be older than those in the database

  // Sets all fields of a 200 except the ETag.
  void fill(http::Response& response) const;
  // 304 for a client that has the representation with this tag. The tag is empty for a condition `*`.
  [[nodiscard]] http::Response not_modified(const Conditions& conditions, std::string_view tag) const;

 private:
  void fill_common(http::Response& response) const;
};

}  // namespace sluice::api
