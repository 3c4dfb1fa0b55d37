#include "login/fields.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "api/refusals.h"
#include "base/buffer.h"
#include "base/json.h"
#include "base/utf8.h"
#include "http/claims.h"
#include "http/query_string.h"

namespace sluice::login {
namespace {

using Kind = http::Claim::Kind;

std::expected<Fields, http::Response> wrong(std::string_view detail) {
  return std::unexpected(http::problem(400, detail));
}

std::expected<Fields, http::Response> from_json(std::string_view text) {
  const auto object = http::Claims::parse(text);
  if (object == nullptr) return wrong("The body is not a JSON object, or it has a member twice.");
  Fields fields;
  for (const http::Claim& member : object->all()) {
    if (member.depth != 1) continue;
    if (member.kind == Kind::array || member.kind == Kind::object) {
      return wrong(fmt::format("The member \"{}\" must be a text, a number or a truth value.", member.path));
    }
    if (member.kind != Kind::null) fields.emplace(member.path, member.text);
  }
  return fields;
}

std::expected<Fields, http::Response> from_form(std::string_view text) {
  Fields fields;
  for (http::QueryPairs pairs(text); !pairs.done();) {
    const auto [encoded_name, encoded_value] = pairs.next();
    std::string name;
    std::string value;
    if (!http::append_decoded(encoded_name, name) || !http::append_decoded(encoded_value, value) || !is_utf8(name) ||
        !is_utf8(value)) {
      return wrong("The form cannot be read.");
    }
    if (!fields.emplace(name, std::move(value)).second) return wrong("The form has a field twice.");
  }
  return fields;
}

}  // namespace

core::Task<std::expected<Fields, http::Response>> read_fields(const http::Request& request) {
  if (request.body == nullptr) co_return Fields{};
  std::string text;
  if (auto refused = co_await api::read_whole(request, longest_body, 1, text)) {
    co_return std::unexpected(std::move(*refused));
  }
  if (text.empty()) co_return Fields{};
  co_return parse_fields(request.field("content-type"), text);
}

std::expected<Fields, http::Response> parse_fields(std::string_view type, std::string_view body) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  if (http::same_name(type, "application/json")) return from_json(body);
  if (http::same_name(type, "application/x-www-form-urlencoded")) return from_form(body);
  auto response = http::problem(415, "The body must be application/json or application/x-www-form-urlencoded.");
  response.fields.add_trusted("Accept-Post", "application/json, application/x-www-form-urlencoded");
  return std::unexpected(std::move(response));
}

std::string json_string(std::string_view text) {
  Buffer out;
  out.append("\"");
  append_json_escaped(out, text);
  out.append("\"");
  return std::string(out.view());
}

std::string json_of(const Fields& fields) {
  std::string text = "{";
  for (const auto& [name, value] : fields) {
    text += (text.size() > 1 ? "," : "") + json_string(name) + ":" + json_string(value);
  }
  return text + "}";
}

Fields fields_of(std::string_view json) {
  auto fields = from_json(json);
  return fields ? std::move(*fields) : Fields{};
}

}  // namespace sluice::login
