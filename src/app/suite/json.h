#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// JSON as a tree, for comparing bodies. Numbers are kept as written, so that they lose no digits.
namespace sluice::app::suite {

struct Member;

struct Json {
  enum class Kind : std::uint8_t {
    null,
    boolean,
    number,
    string,
    array,
    object,
    marker,  // only in an expectation: "#any", "#matches ^a"; see expectation.h
  };

  Kind kind = Kind::null;
  std::string text;  // a string's value; a number as written; "true" or "false"; a marker with its #
  std::vector<Json> items;
  std::vector<Member> members;  // in their order; of members with the same name the last one counts

  static Json boolean(bool value);
  static Json number(std::string text);
  static Json string(std::string text);
  static Json array();
  static Json object();

  // Null if there is no such member.
  [[nodiscard]] const Json* find(std::string_view name) const;
};

struct Member {
  std::string name;
  Json value;
};

inline constexpr std::size_t deepest_json = 512;  // nesting of arrays and objects

struct JsonError {
  std::optional<std::size_t> offset;  // byte; nothing if it is not known
  std::string message;

  // "a value is expected (byte 7)"
  [[nodiscard]] std::string text() const;
};

// RFC 8259, strictly: one value, valid UTF-8, no lone surrogates.
[[nodiscard]] std::expected<Json, JsonError> parse_json(std::string_view text);
// Values with commas between them, as in an array, but without its brackets.
[[nodiscard]] std::expected<std::vector<Json>, JsonError> parse_json_values(std::string_view text);

// On one line; `{"a": 1, "b": [1, 2]}`.
[[nodiscard]] std::string print_json(const Json& value);
// A member or an item per line, except values that fit into a line of 100 characters.
[[nodiscard]] std::string print_json_lines(const Json& value);

// Whether two JSON numbers of any length are equal; 1, 1.0 and 10e-1 are.
[[nodiscard]] bool same_number(std::string_view one, std::string_view other);

// "object", "a string" ...: for error messages.
[[nodiscard]] std::string_view name_of(Json::Kind kind);

}  // namespace sluice::app::suite
