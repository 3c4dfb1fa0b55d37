#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

// JSON as a tree, for bodies that are compared. Numbers are kept as they were written, so that none loses a digit.
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
    marker,  // in an expectation only: "#any", "#matches ^a"; see expectation.h
  };

  Kind kind = Kind::null;
  std::string text;  // a string's; of a number how it is written; "true", "false"; a marker's, with its #
  std::vector<Json> items;
  std::vector<Member> members;  // in their order; of those with one name the last counts

  static Json boolean(bool value);
  static Json number(std::string text);
  static Json string(std::string text);
  static Json array();
  static Json object();

  // Null: there is none.
  [[nodiscard]] const Json* find(std::string_view name) const;
};

struct Member {
  std::string name;
  Json value;
};

inline constexpr std::size_t deepest_json = 512;  // arrays and objects in each other

struct JsonError {
  std::size_t offset = 0;  // byte
  std::string message;
};

// RFC 8259, strictly: one value, valid UTF-8, no lone surrogates.
[[nodiscard]] std::expected<Json, JsonError> parse_json(std::string_view text);

// On one line; `{"a": 1, "b": [1, 2]}`.
[[nodiscard]] std::string print_json(const Json& value);
// A member or an item on each line, but for what fits in a line of 100 characters.
[[nodiscard]] std::string print_json_lines(const Json& value);

// Whether two JSON numbers are the same number: 1, 1.0 and 10e-1 are, whatever their length.
[[nodiscard]] bool same_number(std::string_view one, std::string_view other);

// "object", "a string" ...: for sentences.
[[nodiscard]] std::string_view name_of(Json::Kind kind);

}  // namespace sluice::app::suite
