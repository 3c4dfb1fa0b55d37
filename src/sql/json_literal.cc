#include "sql/json_literal.h"

#include <algorithm>
#include <vector>

#include <simdjson.h>

namespace sluice::sql {
namespace {

using simdjson::ondemand::json_type;
using simdjson::ondemand::value;

std::string in_quotes(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') literal += '\\';
    literal += c;
  }
  return literal + '"';
}

std::string_view trimmed(std::string_view text) {
  const auto end = text.find_last_not_of(" \t\r\n");
  return text.substr(0, end == text.npos ? 0 : end + 1);
}

bool append_array(std::string& literal, simdjson::ondemand::array array, const Type& type);
bool append_composite(std::string& literal, simdjson::ondemand::object object, const Type& type);

// Appends the text from which the type reads the value. `json` is not null.
bool append_text(std::string& text, value json, json_type kind, const Type& type) {
  simdjson::ondemand::array array;
  simdjson::ondemand::object object;
  std::string_view raw;
  if (kind == json_type::array) {
    if (json.get_array().get(array) != simdjson::SUCCESS) return false;
    if (type.form == Form::array) return append_array(text, array, type);
    if (array.raw_json().get(raw) != simdjson::SUCCESS) return false;
  } else if (kind == json_type::object) {
    if (json.get_object().get(object) != simdjson::SUCCESS) return false;
    if (type.form == Form::composite) return append_composite(text, object, type);
    if (object.raw_json().get(raw) != simdjson::SUCCESS) return false;
  } else if (kind == json_type::string && type.form != Form::json) {
    if (json.get_string().get(raw) != simdjson::SUCCESS) return false;
  } else {
    raw = trimmed(json.raw_json_token());
  }
  text += raw;
  return true;
}

bool append_array(std::string& literal, simdjson::ondemand::array array, const Type& type) {
  literal += '{';
  for (auto element : array) {
    value one;
    json_type kind{};
    if (element.get(one) != simdjson::SUCCESS || one.type().get(kind) != simdjson::SUCCESS) return false;
    if (literal.back() != '{') literal += type.delimiter;
    const bool is_dimension =
        kind == json_type::array && type.element->form != Form::json && type.element->form != Form::array;
    if (kind == json_type::null) {
      literal += "NULL";
      if (!one.is_null()) return false;
    } else if (is_dimension) {
      simdjson::ondemand::array inner;
      if (one.get_array().get(inner) != simdjson::SUCCESS || !append_array(literal, inner, type)) return false;
    } else {
      std::string text;
      if (!append_text(text, one, kind, *type.element)) return false;
      literal += in_quotes(text);
    }
  }
  literal += '}';
  return true;
}

bool append_composite(std::string& literal, simdjson::ondemand::object object, const Type& type) {
  std::vector<std::string> values(type.attributes.size());
  for (auto field : object) {
    std::string_view name;
    value one;
    json_type kind{};
    if (field.unescaped_key().get(name) != simdjson::SUCCESS || field.value().get(one) != simdjson::SUCCESS ||
        one.type().get(kind) != simdjson::SUCCESS) {
      return false;
    }
    const auto attribute = std::ranges::find(type.attributes, name, &Attribute::name);
    if (attribute == type.attributes.end()) return false;
    std::string& into = values[static_cast<std::size_t>(attribute - type.attributes.begin())];
    into.clear();
    if (kind == json_type::null) {
      if (!one.is_null()) return false;
      continue;
    }
    std::string text;
    if (!append_text(text, one, kind, *attribute->type)) return false;
    into = in_quotes(text);
  }
  literal += '(';
  for (std::size_t i = 0; i < values.size(); ++i) literal += (i == 0 ? "" : ",") + values[i];
  literal += ')';
  return true;
}

}  // namespace

bool has_literal(const Type& type) {
  return type.form == Form::composite || (type.form == Form::array && type.delimiter != ' ' && type.element);
}

std::optional<std::string> json_literal(std::string_view json, const Type& type) {
  const simdjson::padded_string padded(json);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::array array;
  simdjson::ondemand::object object;
  std::string literal;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return std::nullopt;
  const bool good =
      type.form == Form::array
          ? document.get_array().get(array) == simdjson::SUCCESS && append_array(literal, array, type)
          : document.get_object().get(object) == simdjson::SUCCESS && append_composite(literal, object, type);
  return good ? std::optional(std::move(literal)) : std::nullopt;
}

}  // namespace sluice::sql
