#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/document.h"
#include "app/config/source.h"
#include "app/suite/json.h"

// Compares an answer with the expected one, and describes the first difference. A string that begins with # is a
// marker. It matches many values.
//
//   "#any"            any value, also null          "#null" "#boolean" "#number" "#string" "#array" "#object"
//   "#absent"         no value                      "#matches PATTERN" "#contains TEXT"    for strings
//
// "##tag" is the string "#tag".
namespace sluice::app::suite {

enum class Side : std::uint8_t {
  request,      // only "#null", since TOML has no null
  expectation,  // all markers
};

// Converts a value of the test file. A string at the top level is JSON text, or a single variable. Each error gives its
// position. Returns null if the text is not JSON.
[[nodiscard]] Json json_of(const config::Value& value, Side side, const config::Source& source,
                           std::vector<config::Diagnostic>& errors);

// Likewise for a string that is not JSON: the value of `text`, or of a header field.
[[nodiscard]] Json text_expectation(const Located<std::string>& text, std::vector<config::Diagnostic>& errors);

// Parses a table in the form of CSJ: a line of column names, quoted or not, then rows of JSON values, one per line.
// Returns the rows as objects. An error's offset counts bytes of `text`.
[[nodiscard]] std::expected<Json, JsonError> parse_table(std::string_view text);

enum class Match : std::uint8_t {
  subset,  // every expected member must be there
  exact,   // and no other members
};
enum class Order : std::uint8_t { same, any };  // of the rows, if the value at the top level is a list

struct Difference {
  std::string path;  // "body.films.0.slug"
  std::string expected;
  std::string got;
};

// Returns the differences in the order of the expectation; empty if there are none. `path`: the name of the value in
// the results.
[[nodiscard]] std::vector<Difference> compare(const Json& expected, const Json& got, Match match, Order order,
                                              const std::string& path);

// Whether a text matches `expected`, a string or a marker. `got` is null if there is no text.
[[nodiscard]] bool meets(const Json& expected, const Json* got);

// Prints `rows` as a table with the columns of `expected`, one line per row, for diff_lines(). Returns an empty string
// if `rows` or `expected` has no rows.
[[nodiscard]] std::string print_table(const Json& rows, const Json& expected);

}  // namespace sluice::app::suite
