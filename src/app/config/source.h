#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

// The text of a configuration file, kept so that every later stage can point into it.
class Source {
 public:
  Source() = default;
  // `name` is how messages call the file.
  Source(std::string name, std::string text);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& text() const { return text_; }

  void add(const Substitution& substitution) { substitutions_.push_back(substitution); }

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
  // Values are masked unless their keys hold statements, paths or names. Control characters and broken UTF-8 are
  // replaced, long lines cut.
  [[nodiscard]] std::string render(const Diagnostic& diagnostic) const;

 private:
  [[nodiscard]] std::string_view line(std::uint32_t number) const;
  [[nodiscard]] std::size_t offset(Position position) const;

  std::string name_;
  std::string text_;
  std::vector<std::size_t> lines_;  // where each begins
  std::vector<Substitution> substitutions_;
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
