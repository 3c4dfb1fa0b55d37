#include "api/body/format.h"

#include <string>

#include "base/ascii.h"
#include "http/request.h"

namespace sluice::api {
namespace {

using http::is_token;
using http::same_name;

// A token, or the content of a quoted string without escapes. Returns nullopt if there is neither.
std::optional<std::string> next_value(std::string_view& rest) {
  std::string value;
  if (!rest.starts_with('"')) {
    value = rest.substr(0, rest.find_first_of("; \t"));
    rest.remove_prefix(value.size());
    if (!is_token(value)) return std::nullopt;
    return value;
  }
  for (std::size_t at = 1; at < rest.size(); ++at) {
    if (rest[at] == '"') {
      rest.remove_prefix(at + 1);
      return value;
    }
    if (rest[at] == '\\' && ++at == rest.size()) break;
    value += rest[at];
  }
  return std::nullopt;
}

std::optional<BodyFormat> format_of(std::string_view type, std::string_view subtype) {
  if (same_name(type, "text")) {
    if (same_name(subtype, "csv")) return BodyFormat::csv;
    return std::nullopt;
  }
  if (!same_name(type, "application")) return std::nullopt;
  if (same_name(subtype, "json")) return BodyFormat::json;
  if (same_name(subtype, "x-ndjson") || same_name(subtype, "ndjson")) return BodyFormat::ndjson;
  if (same_name(subtype, "csj")) return BodyFormat::csj;
  if (same_name(subtype, "x-www-form-urlencoded")) return BodyFormat::form;
  if (same_name(subtype, "merge-patch+json")) return BodyFormat::merge_patch;
  return std::nullopt;
}

}  // namespace

std::optional<BodyFormat> body_format(std::string_view content_type) {
  std::string_view rest = content_type;
  skip_blanks(rest);
  const std::string_view media = rest.substr(0, rest.find_first_of("; \t"));
  rest.remove_prefix(media.size());
  const auto slash = media.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view subtype = media.substr(slash + 1);
  if (!is_token(media.substr(0, slash)) || !is_token(subtype)) return std::nullopt;
  const auto format = format_of(media.substr(0, slash), subtype);

  // *( OWS ";" OWS [ parameter ] ), RFC 9110, 5.6.6.
  for (;;) {
    skip_blanks(rest);
    if (rest.empty()) return format;
    if (rest.front() != ';') return std::nullopt;
    rest.remove_prefix(1);
    skip_blanks(rest);
    if (rest.empty() || rest.front() == ';') continue;
    const std::string_view name = rest.substr(0, rest.find_first_of("=; \t"));
    rest.remove_prefix(name.size());
    if (!is_token(name) || !rest.starts_with('=')) return std::nullopt;
    rest.remove_prefix(1);
    const auto value = next_value(rest);
    if (!value) return std::nullopt;
    if (same_name(name, "charset") && !same_name(*value, "utf-8") && !same_name(*value, "us-ascii")) {
      return std::nullopt;
    }
    if (same_name(name, "header") && same_name(*value, "absent")) return std::nullopt;
  }
}

std::optional<BodyFormat> body_format(const http::Request& request) {
  const http::Field* type = nullptr;
  for (const http::Field& field : request.fields) {
    if (same_name(field.name, "content-encoding") && !same_name(field.value, "identity")) return std::nullopt;
    if (!same_name(field.name, "content-type")) continue;
    if (type != nullptr) return std::nullopt;
    type = &field;
  }
  if (type == nullptr) return std::nullopt;
  return body_format(type->value);
}

std::string_view accepted_types() {
  return "application/json, application/x-ndjson, application/ndjson, text/csv, application/csj, "
         "application/x-www-form-urlencoded";
}

}  // namespace sluice::api
