#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/document.h"
#include "app/config/source.h"
#include "app/suite/json.h"

// What an answer must be, and in what it differs. A string that begins with # is a marker: any value of a sort.
//
//   "#any"            there is one, null too        "#null" "#boolean" "#number" "#string" "#array" "#object"
//   "#absent"         there is none                 "#matches PATTERN" "#contains TEXT"    of strings
//
// "##tag" is the string "#tag".
namespace sluice::app::suite {

enum class Side : std::uint8_t {
  request,      // "#null" alone: TOML has no null
  expectation,  // all markers
};

// A value of the file, a string at its top being JSON text, or one variable. Complaints name their place; then the
// value is null.
[[nodiscard]] Json json_of(const config::Value& value, Side side, const config::Source& source,
                           std::vector<config::Diagnostic>& errors);

// The same for one string that is no JSON: of `text`, or a header's field.
[[nodiscard]] Json text_expectation(const Located<std::string>& text, std::vector<config::Diagnostic>& errors);

// A table as CSJ writes it: the columns' names, in quotes or as they are, then rows of JSON values, one a line. Gives
// the rows as objects; an error's offset is a byte of `text`.
[[nodiscard]] std::expected<Json, JsonError> parse_table(std::string_view text);

enum class Match : std::uint8_t {
  subset,  // what is expected must be there
  exact,   // and nothing else
};
enum class Order : std::uint8_t { same, any };  // of the rows of the list at the top

struct Difference {
  std::string path;  // "body.films.0.slug"
  std::string expected;
  std::string got;
};

// In the order of the expectation; none: it is met. `path` is what the value is called.
[[nodiscard]] std::vector<Difference> compare(const Json& expected, const Json& got, Match match, Order order,
                                              const std::string& path);

// Whether one text meets a string or a marker; `got` null: there is none.
[[nodiscard]] bool meets(const Json& expected, const Json* got);

// As lines of a table that has the columns of `expected`: for a difference that is shown line by line. Empty where they
// are no rows.
[[nodiscard]] std::string print_table(const Json& rows, const Json& expected);

}  // namespace sluice::app::suite
