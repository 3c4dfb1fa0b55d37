#include "app/suite/json.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <simdjson.h>

#include "api/decimal.h"
#include "base/buffer.h"
#include "base/json.h"
#include "sql/encode/text.h"

namespace sluice::app::suite {
namespace {

namespace ondemand = simdjson::ondemand;

Json make(Json::Kind kind, std::string text = {}) {
  Json result;
  result.kind = kind;
  result.text = std::move(text);
  return result;
}

// Recursive, with a nesting of at most deepest_json. simdjson checks the structure, words and strings, but not the
// syntax of numbers.
class Parser {
 public:
  // The text becomes an array of its values, so that a value at the top is read like any other.
  explicit Parser(std::string_view text) : size_(text.size()), json_(fmt::format("[{}]", text)) {}

  std::expected<std::vector<Json>, JsonError> values(std::size_t most) {
    std::vector<Json> values;
    if (const auto error = parser_.iterate(json_).get(document_); error == simdjson::UNCLOSED_STRING) {
      fail({}, end());
    } else if (error != simdjson::SUCCESS) {
      error_.message = simdjson::error_message(error);
    } else if (ondemand::array array; check(document_.get_array().get(array)) && items(array, values, most, 0)) {
      if (location() == end()) return values;
      error_.message = "a ] closes nothing";
    }
    return std::unexpected(std::move(error_));
  }

 private:
  bool fail(std::string message, const char* at) {
    error_.offset = std::min(static_cast<std::size_t>(at - json_.data()) - 1, size_);
    error_.message = error_.offset == size_ ? "it ends too early" : std::move(message);
    return false;
  }
  bool check(simdjson::error_code error) {
    return error == simdjson::SUCCESS || fail(simdjson::error_message(error), location());
  }
  const char* end() { return json_.data() + json_.size(); }
  // The position of the next token, or of the token that was refused.
  const char* location() {
    const char* at = end();
    std::ignore = document_.current_location().get(at);
    return at;
  }

  bool items(ondemand::array array, std::vector<Json>& out, std::size_t most, std::size_t depth) {
    for (auto item : array) {
      ondemand::value value;
      if (!check(item.get(value))) return false;
      if (out.size() == most) return fail("there is something behind the value", location());
      if (!read(value, out.emplace_back(), depth)) return false;
    }
    return true;
  }

  bool members(ondemand::object object, std::vector<Member>& out, std::size_t depth) {
    for (auto field : object) {
      std::string_view name;
      ondemand::value value;
      if (!check(field.unescaped_key().get(name)) || !check(field.value().get(value))) return false;
      Member& member = out.emplace_back();
      member.name = name;
      if (!read(value, member.value, depth)) return false;
    }
    return true;
  }

  bool read(ondemand::value value, Json& out, std::size_t depth) {
    std::string_view token = value.raw_json_token();
    ondemand::json_type type{};
    if (value.type().get(type) != simdjson::SUCCESS) return fail("a value is expected", token.data());
    const bool is_nested = type == ondemand::json_type::array || type == ondemand::json_type::object;
    if (is_nested && depth == deepest_json) return fail("it is nested too deeply", token.data());
    switch (type) {
      case ondemand::json_type::array: {
        out.kind = Json::Kind::array;
        ondemand::array array;
        return check(value.get_array().get(array)) && items(array, out.items, SIZE_MAX, depth + 1);
      }
      case ondemand::json_type::object: {
        out.kind = Json::Kind::object;
        ondemand::object object;
        return check(value.get_object().get(object)) && members(object, out.members, depth + 1);
      }
      case ondemand::json_type::string: {
        std::string_view text;
        if (value.get_string().get(text) != simdjson::SUCCESS)
          return fail("an escape in this string is wrong", token.data());
        out = Json::string(std::string(text));
        return true;
      }
      case ondemand::json_type::number:
        token = token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
        out = Json::number(std::string(token));
        return sql::encode::is_json_number(token.data(), token.size()) || fail("this is not a number", token.data());
      case ondemand::json_type::boolean: {
        bool is_true = false;
        if (value.get_bool().get(is_true) != simdjson::SUCCESS) return fail("a value is expected", token.data());
        out = Json::boolean(is_true);
        return true;
      }
      case ondemand::json_type::null:
        return value.is_null().error() == simdjson::SUCCESS || fail("a value is expected", token.data());
    }
    return false;
  }

  std::size_t size_;
  simdjson::padded_string json_;
  ondemand::parser parser_;
  ondemand::document document_;
  JsonError error_;
};

void append_string(std::string& out, std::string_view text) {
  Buffer escaped;
  append_json_escaped(escaped, text);
  out += '"';
  out += escaped.view();
  out += '"';
}

void append(std::string& out, const Json& value) {
  switch (value.kind) {
    case Json::Kind::null:
      out += "null";
      break;
    case Json::Kind::boolean:
    case Json::Kind::number:
    case Json::Kind::marker:
      out += value.text;
      break;
    case Json::Kind::string:
      append_string(out, value.text);
      break;
    case Json::Kind::array: {
      out += '[';
      for (bool first = true; const Json& item : value.items) {
        if (!std::exchange(first, false)) out += ", ";
        append(out, item);
      }
      out += ']';
      break;
    }
    case Json::Kind::object: {
      out += '{';
      for (bool first = true; const auto& [name, member] : value.members) {
        if (!std::exchange(first, false)) out += ", ";
        append_string(out, name);
        out += ": ";
        append(out, member);
      }
      out += '}';
      break;
    }
  }
}

void append_lines(std::string& out, const Json& value, std::size_t indent) {
  constexpr std::size_t width = 100;
  std::string line;
  append(line, value);
  const bool is_list = value.kind == Json::Kind::array;
  if ((!is_list && value.kind != Json::Kind::object) || (indent + line.size() <= width && indent != 0) ||
      (value.items.empty() && value.members.empty())) {
    out += line;
    return;
  }
  const std::string margin(indent + 2, ' ');
  out += is_list ? "[" : "{";
  bool first = true;
  for (const Json& item : value.items) {
    out += std::exchange(first, false) ? "\n" : ",\n";
    out += margin;
    append_lines(out, item, indent + 2);
  }
  for (const auto& [name, member] : value.members) {
    out += std::exchange(first, false) ? "\n" : ",\n";
    out += margin;
    append_string(out, name);
    out += ": ";
    append_lines(out, member, indent + 2);
  }
  out += "\n" + std::string(indent, ' ');
  out += is_list ? "]" : "}";
}

}  // namespace

Json Json::boolean(bool value) { return make(Kind::boolean, value ? "true" : "false"); }
Json Json::number(std::string text) { return make(Kind::number, std::move(text)); }
Json Json::string(std::string text) { return make(Kind::string, std::move(text)); }
Json Json::array() { return make(Kind::array); }
Json Json::object() { return make(Kind::object); }

const Json* Json::find(std::string_view name) const {
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    if (member->name == name) return &member->value;
  }
  return nullptr;
}

std::string JsonError::text() const { return offset ? fmt::format("{} (byte {})", message, *offset) : message; }

std::expected<Json, JsonError> parse_json(std::string_view text) {
  auto values = Parser(text).values(1);
  if (!values) return std::unexpected(std::move(values.error()));
  if (values->empty()) return std::unexpected(JsonError{0, "a value is expected"});
  return std::move(values->front());
}

std::expected<std::vector<Json>, JsonError> parse_json_values(std::string_view text) {
  return Parser(text).values(SIZE_MAX);
}

std::string print_json(const Json& value) {
  std::string out;
  append(out, value);
  return out;
}

std::string print_json_lines(const Json& value) {
  std::string out;
  append_lines(out, value, 0);
  return out;
}

bool same_number(std::string_view one, std::string_view other) {
  if (one == other) return true;
  const auto first = api::parse_decimal(one);
  const auto second = api::parse_decimal(other);
  return first && second && *first == *second;
}

std::string_view name_of(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return "a boolean";
    case Json::Kind::number:
      return "a number";
    case Json::Kind::string:
      return "a string";
    case Json::Kind::array:
      return "an array";
    case Json::Kind::object:
      return "an object";
    case Json::Kind::marker:
      return "a marker";
  }
  return {};
}

}  // namespace sluice::app::suite
