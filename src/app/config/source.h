#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/declare.h"

namespace sluice::app::config {

// One error in the file. The message is a sentence without its full stop; the hint is another, or empty.
struct Diagnostic {
  Position position;  // line 0: the error concerns the file as a whole
  std::string message;
  std::string hint = {};
};

// A ${NAME} that was replaced in a string. The numbers are in characters, counted from the string's first one.
struct Substitution {
  Position string;            // of the string's opening quote
  std::uint32_t written_at;   // in the string before the replacement, with escapes decoded
  std::uint32_t written;      // the length of ${NAME} there
  std::uint32_t replaced_at;  // in the string after the replacement
  std::uint32_t replaced;
};

// A value in the file, and whether messages may show it.
struct WrittenValue {
  Position begin;
  Position end;
  bool is_shown = false;
};

// The text of a configuration file, kept so that every later stage can point into it.
class Source {
 public:
  Source() = default;
  // `name`: the file's name in messages.
  Source(std::string name, std::string text);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& text() const { return text_; }

  void add(const Substitution& substitution) { substitutions_.push_back(substitution); }
  // `values`: all values of the file except tables and lists. Until they are known, render() shows no line of the file.
  void take(std::vector<WrittenValue> values) { values_ = std::move(values); }

  // The position in the file of the given character (from 1) of a string's value. It accounts for escapes, the lines of
  // a multi-line string and replaced ${NAME}s. `string` is the Located position of the value; character 0 returns that
  // position itself.
  [[nodiscard]] Position locate(Position string, std::uint32_t character) const;

  // Formats an error as a compiler does, with a final line break:
  //
  //   sluice.toml:12:1: error: unknown key "cores_" in [server]
  //     12 | cores_ = 4
  //        | ^
  //        = did you mean "cores"?
  //
  // Values are masked unless they may be shown; literals in statements, and comments, are always masked. Control
  // characters and invalid UTF-8 are replaced, and long lines are cut. No lines are shown of a file that is not TOML,
  // because it may have secrets anywhere.
  [[nodiscard]] std::string render(const Diagnostic& diagnostic) const;

 private:
  [[nodiscard]] std::string_view line(std::uint32_t number) const;
  [[nodiscard]] std::size_t offset(Position position) const;
  [[nodiscard]] std::string masked(std::uint32_t number) const;

  std::string name_;
  std::string text_;
  std::vector<std::size_t> lines_;  // the offset at which each begins
  std::vector<Substitution> substitutions_;
  std::optional<std::vector<WrittenValue>> values_;
};

// The errors in a file, in the order of their positions.
struct Errors {
  static constexpr std::size_t most_shown = 20;

  Source source;
  std::vector<Diagnostic> list;

  // Renders the errors, at most `most_shown`, and the number of the remaining ones.
  [[nodiscard]] std::string text() const;
};

// A database's message about a statement. `***` replaces the statement's literals, which render() masks too, and any
// part of them that the message quotes.
[[nodiscard]] std::string without_literals(std::string message, std::string_view statement);

// The number of characters in a text: the bytes that are not UTF-8 continuation bytes.
[[nodiscard]] std::uint32_t count_characters(std::string_view text);

}  // namespace sluice::app::config
