#pragma once

#include <cstddef>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/suite/json.h"

// ${name} in the strings of a suite stands for a variable that an earlier step has set. ${env.NAME} and
// ${env.NAME:-default} stand for environment variables; $${ stands for ${ itself.
namespace sluice::app::suite {

struct Variables {
  std::map<std::string, Json, std::less<>> values;

  // The value of a variable or of "env.NAME"; nothing if it is not set.
  [[nodiscard]] std::optional<Json> find(std::string_view name) const;
};

// A piece of a text: plain text or a variable.
struct Piece {
  bool is_variable = false;
  std::string text;                     // the variable's name
  std::optional<std::string> standard;  // the default after ":-"
  std::size_t offset = 0;               // where it begins, in bytes
};

struct PieceError {
  std::size_t offset = 0;
  std::string message;
};

[[nodiscard]] std::expected<std::vector<Piece>, PieceError> split_variables(std::string_view text);

// How a variable's value is escaped in a text.
using Quote = std::string (*)(std::string_view value);

// Replaces the variables in a text: a string by its text, other values by their JSON. An error is a sentence.
[[nodiscard]] std::expected<std::string, std::string> expand(std::string_view text, const Variables& variables,
                                                             Quote quote = nullptr);
// Replaces the variables in all strings of a value. A string that is only a variable becomes the variable's value, of
// any kind.
[[nodiscard]] std::expected<Json, std::string> expand(const Json& value, const Variables& variables);

// A value as text: see expand().
[[nodiscard]] std::string text_of(const Json& value);

}  // namespace sluice::app::suite
