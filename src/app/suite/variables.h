#pragma once

#include <cstddef>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/suite/json.h"

// ${name} in the strings of a suite: what an earlier step has set. ${env.NAME} and ${env.NAME:-default} come from the
// environment; $${ stands for ${ itself.
namespace sluice::app::suite {

struct Variables {
  std::map<std::string, Json, std::less<>> values;

  // Of a variable or "env.NAME"; nothing where it has none.
  [[nodiscard]] std::optional<Json> find(std::string_view name) const;
};

// A piece of a text: as it is written, or a variable.
struct Piece {
  bool is_variable = false;
  std::string text;                     // the variable's name
  std::optional<std::string> standard;  // behind ":-"
  std::size_t offset = 0;               // byte where it begins
};

struct PieceError {
  std::size_t offset = 0;
  std::string message;
};

[[nodiscard]] std::expected<std::vector<Piece>, PieceError> split_variables(std::string_view text);

// How a variable's value is put into a text.
using Quote = std::string (*)(std::string_view value);

// The text with its variables' values: a string's own text, anything else as JSON. An error is a sentence.
[[nodiscard]] std::expected<std::string, std::string> expand(std::string_view text, const Variables& variables,
                                                             Quote quote = nullptr);
// All strings in it. One that is nothing but a variable becomes its value, of whatever kind.
[[nodiscard]] std::expected<Json, std::string> expand(const Json& value, const Variables& variables);

// What a value is in a text.
[[nodiscard]] std::string text_of(const Json& value);

}  // namespace sluice::app::suite
