#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/fields.h"

namespace sluice::app {

// Masks credentials in logs and messages: the values of headers and query parameters that hold credentials, and the
// users and passwords in URLs. Names stay visible. The access log and [request_log] use it.
class Redaction {
 public:
  // `more`: names of headers and query parameters to hide, in addition to the built-in ones.
  explicit Redaction(std::span<const std::string> more = {});

  // True if names_credential() says so, if the name is in `more`, or if the name is escaped more than once.
  [[nodiscard]] bool hides(std::string_view name) const;
  // Appends a query string with `***` for the values of hidden parameters and for the users and passwords of URLs.
  void append_query(std::string& out, std::string_view query) const;
  // Appends a request target, a URL, or a text with URLs, redacted likewise. Parameters follow '?', '#' or ';'.
  void append_address(std::string& out, std::string_view address) const;
  // Appends the fields as a JSON object, redacted likewise. Fields with the same name become an array.
  void append_fields(std::string& out, std::span<const http::Field> fields) const;

  static constexpr std::string_view hidden = "***";

 private:
  void append_parameters(std::string& out, std::string_view query) const;

  std::vector<std::string> more_;  // as comparable_name() returns them
};

}  // namespace sluice::app
