#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/fields.h"

namespace sluice::app {

// Leaves credentials out of logs and messages: the values of headers and query parameters that hold some, and the
// users and passwords of URLs. Their names stay. The access log and [request_log] share it.
class Redaction {
 public:
  // `more`: names of headers and of query parameters, beside those that are known.
  explicit Redaction(std::span<const std::string> more = {});

  // Whether names_credential() says so, it is one of `more`, or it is escaped more than once.
  [[nodiscard]] bool hides(std::string_view name) const;
  // Appends a query string with the values of such parameters replaced, and `***` for the users and passwords of URLs.
  void append_query(std::string& out, std::string_view query) const;
  // Appends a request's target, a URL or a text that contains some, likewise; parameters follow '?', '#' or ';'.
  void append_address(std::string& out, std::string_view address) const;
  // Appends the fields as a JSON object, likewise; of a name that comes again, an array.
  void append_fields(std::string& out, std::span<const http::Field> fields) const;

  static constexpr std::string_view hidden = "***";

 private:
  void append_parameters(std::string& out, std::string_view query) const;

  std::vector<std::string> more_;  // as comparable_name() has them
};

}  // namespace sluice::app
