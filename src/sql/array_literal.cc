#include "sql/array_literal.h"

#include <simdjson.h>

#include "sql/postgres/types.h"

namespace sluice::sql {
namespace {

using simdjson::ondemand::json_type;

void append_quoted(std::string& literal, std::string_view text) {
  literal += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') literal += '\\';
    literal += c;
  }
  literal += '"';
}

std::string_view trimmed(std::string_view text) {
  const auto end = text.find_last_not_of(" \t\r\n");
  return text.substr(0, end == text.npos ? 0 : end + 1);
}

bool append_array(std::string& literal, simdjson::ondemand::array array, ArrayForm form);

bool append_element(std::string& literal, simdjson::ondemand::value value, ArrayForm form) {
  json_type type{};
  if (value.type().get(type) != simdjson::SUCCESS) return false;
  if (type == json_type::null) {
    literal += "NULL";
    return value.is_null();
  }
  if (type == json_type::array && !form.of_json) {
    simdjson::ondemand::array array;
    return value.get_array().get(array) == simdjson::SUCCESS && append_array(literal, array, form);
  }
  std::string_view text;
  if (type == json_type::array) {
    simdjson::ondemand::array array;
    if (value.get_array().get(array) != simdjson::SUCCESS || array.raw_json().get(text) != simdjson::SUCCESS)
      return false;
  } else if (type == json_type::object) {
    simdjson::ondemand::object object;
    if (value.get_object().get(object) != simdjson::SUCCESS || object.raw_json().get(text) != simdjson::SUCCESS) {
      return false;
    }
  } else if (type == json_type::string && !form.of_json) {
    if (value.get_string().get(text) != simdjson::SUCCESS) return false;
  } else {
    text = trimmed(value.raw_json_token());
  }
  append_quoted(literal, text);
  return true;
}

bool append_array(std::string& literal, simdjson::ondemand::array array, ArrayForm form) {
  literal += '{';
  for (auto element : array) {
    simdjson::ondemand::value value;
    if (element.get(value) != simdjson::SUCCESS) return false;
    if (literal.back() != '{') literal += form.delimiter;
    if (!append_element(literal, value, form)) return false;
  }
  literal += '}';
  return true;
}

}  // namespace

std::optional<ArrayForm> array_form(std::uint32_t oid) {
  const auto type = postgres::builtin_type(oid);
  if (type == nullptr || type->form != Form::array || type->delimiter == ' ') return std::nullopt;
  return ArrayForm{.delimiter = type->delimiter, .of_json = type->element->form == Form::json};
}

std::optional<std::string> array_literal(std::string_view json, ArrayForm form) {
  const simdjson::padded_string padded(json);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::array array;
  std::string literal;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS ||
      document.get_array().get(array) != simdjson::SUCCESS || !append_array(literal, array, form)) {
    return std::nullopt;
  }
  return literal;
}

}  // namespace sluice::sql
