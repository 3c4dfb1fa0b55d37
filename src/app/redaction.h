#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace sluice::app {

// What must not be in a log that others read: credentials, in headers and in query strings. Their names stay.
class Redaction {
 public:
  // `more`: names of headers and of query parameters, beside those that are known.
  explicit Redaction(std::span<const std::string> more = {});

  // Authorization, Cookie, names that hold "token", "secret", "password" and the like, and those of which "auth",
  // "key", "pass" and the like are words, between hyphens or underscores; without case.
  [[nodiscard]] bool hides(std::string_view name) const;
  // Appends a query string with the values of such parameters replaced.
  void append_query(std::string& out, std::string_view query) const;
  // Appends the fields as a JSON object, likewise; of a name that comes again, an array. Addresses (Referer) have their
  // query strings appended as above, and "***" for a user and their password.
  void append_fields(std::string& out, std::span<const http::Field> fields) const;

  static constexpr std::string_view hidden = "***";

 private:
  void append_address(std::string& out, std::string_view address) const;
  void append_pairs(std::string& out, std::string_view pairs, std::string_view separators) const;

  std::vector<std::string> more_;  // in lower case
};

}  // namespace sluice::app
