#include "http/request.h"

#include <chrono>

#include "core/reactor.h"

namespace sluice::http {

// Methods are case-sensitive (RFC 9110, 9.1).
Method parse_method(std::string_view text) {
  switch (text.size()) {
    case 3:
      if (text == "GET") return Method::get;
      if (text == "PUT") return Method::put;
      break;
    case 4:
      if (text == "HEAD") return Method::head;
      if (text == "POST") return Method::post;
      break;
    case 5:
      if (text == "PATCH") return Method::patch;
      if (text == "TRACE") return Method::trace;
      break;
    case 6:
      if (text == "DELETE") return Method::delete_;
      break;
    case 7:
      if (text == "OPTIONS") return Method::options;
      if (text == "CONNECT") return Method::connect;
      break;
    default:
      break;
  }
  return Method::other;
}

std::string_view name_of(Method method) {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::head:
      return "HEAD";
    case Method::post:
      return "POST";
    case Method::put:
      return "PUT";
    case Method::delete_:
      return "DELETE";
    case Method::patch:
      return "PATCH";
    case Method::options:
      return "OPTIONS";
    case Method::connect:
      return "CONNECT";
    case Method::trace:
      return "TRACE";
    case Method::other:
      break;
  }
  return {};
}

std::string_view Request::field(std::string_view name) const {
  for (const Field& field : fields) {
    if (same_name(field.name, name)) return field.value;
  }
  return {};
}

bool Request::has_field(std::string_view name) const {
  for (const Field& field : fields) {
    if (same_name(field.name, name)) return true;
  }
  return false;
}

}  // namespace sluice::http
