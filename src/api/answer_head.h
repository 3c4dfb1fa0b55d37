#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/negotiation.h"
#include "api/version.h"
#include "base/time.h"
#include "http/response.h"

namespace sluice::api {

// What an answer with rows says of itself: 200 and 304 alike, but for the type (RFC 9110, 15.4.5).
struct AnswerHead {
  const Wish& wish;
  std::string_view cache_control;  // lives as long as the answer; empty: there is none
  std::optional<Duration> age{};   // of rows that may no longer be those of the database

  // All but the ETag, for 200.
  void fill(http::Response& response) const;
  // 304, to a client that knows the representation of this tag. Empty: it knows whatever there is.
  [[nodiscard]] http::Response not_modified(const Conditions& conditions, std::string_view tag) const;

 private:
  void fill_common(http::Response& response) const;
};

}  // namespace sluice::api
