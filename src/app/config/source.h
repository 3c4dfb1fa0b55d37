#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/declare.h"

namespace sluice::app::config {

// One complaint about the file. The message is a sentence without its full stop, the hint another, or empty.
struct Diagnostic {
  Position position;  // line 0: about the file as a whole
  std::string message;
  std::string hint = {};
};

// A ${NAME} that was replaced in a string. Counted in characters from the string's first one.
struct Substitution {
  Position string;            // of the string's opening quote
  std::uint32_t written_at;   // in the string as it was written, escapes decoded
  std::uint32_t written;      // how long ${NAME} is there
  std::uint32_t replaced_at;  // in the string that came of it
  std::uint32_t replaced;
};

// A value as the file has it, and whether messages show it.
struct WrittenValue {
  Position begin;
  Position end;
  bool is_shown = false;
};

// The text of a configuration file, kept so that every later stage can point into it.
class Source {
 public:
  Source() = default;
  // `name` is how messages call the file.
  Source(std::string name, std::string text);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& text() const { return text_; }

  void add(const Substitution& substitution) { substitutions_.push_back(substitution); }
  // All values of the file, apart from tables and lists. Until they are known, no line of it is shown.
  void take(std::vector<WrittenValue> values) { values_ = std::move(values); }

  // Where the given character (from 1) of a string's value stands in the file: through escapes, lines of a multi-line
  // string and replaced ${NAME}s. `string` is the Located position of the value; 0 gives that position itself.
  [[nodiscard]] Position locate(Position string, std::uint32_t character) const;

  // As a compiler prints it, with a final line break:
  //
  //   sluice.toml:12:1: error: unknown key "cores_" in [server]
  //     12 | cores_ = 4
  //        | ^
  //        = did you mean "cores"?
  //
  // Values are masked unless they are to be shown, and literals of statements and comments always. Control characters
  // and broken UTF-8 are replaced, long lines cut. A file that is no TOML may hold secrets anywhere: its lines are not
  // shown.
  [[nodiscard]] std::string render(const Diagnostic& diagnostic) const;

 private:
  [[nodiscard]] std::string_view line(std::uint32_t number) const;
  [[nodiscard]] std::size_t offset(Position position) const;
  [[nodiscard]] std::string masked(std::uint32_t number) const;

  std::string name_;
  std::string text_;
  std::vector<std::size_t> lines_;  // where each begins
  std::vector<Substitution> substitutions_;
  std::optional<std::vector<WrittenValue>> values_;
};

// What is wrong with a file, in its order.
struct Errors {
  static constexpr std::size_t most_shown = 20;

  Source source;
  std::vector<Diagnostic> list;

  // All of them rendered, at most `most_shown`, and how many more there are.
  [[nodiscard]] std::string text() const;
};

// What a database says of a statement, with `***` for the statement's literals that render() masks, and for what the
// message quotes of them.
[[nodiscard]] std::string without_literals(std::string message, std::string_view statement);

// How many characters a text has: bytes that don't continue another.
[[nodiscard]] std::uint32_t count_characters(std::string_view text);

}  // namespace sluice::app::config
