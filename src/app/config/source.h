#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/config/file_names.h"
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

// The text of a configuration, kept so that every later stage can point into it: a file, and those that it includes.
class Source {
 public:
  Source() = default;
  // `name`: the file's name in messages.
  Source(std::string name, std::string text) : files_{File(std::move(text))}, names_{{std::move(name)}} {}
  // Adds an included file. Positions in it have the returned number.
  std::uint32_t include(std::string name, std::string text);

  [[nodiscard]] const std::string& name() const { return names_.names[0]; }
  [[nodiscard]] const FileNames& files() const { return names_; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(files_.size()); }
  [[nodiscard]] const std::string& text(std::uint32_t file = 0) const { return files_[file].text; }

  void add(const Substitution& substitution) { substitutions_.push_back(substitution); }
  // The content of a file that ${file:PATH} names. render() hides it.
  void add_secret(std::string secret) { secrets_.push_back(std::move(secret)); }
  [[nodiscard]] const std::vector<std::string>& secrets() const { return secrets_; }
  // `values`: all values of the file except tables and lists. Until they are known, render() shows no line of the file.
  void take(std::vector<WrittenValue> values, std::uint32_t file = 0);

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
  // The text of all files, with `***` for each part that render() masks, and for the default in ${NAME:-default}.
  [[nodiscard]] std::string masked() const;

 private:
  struct File {
    explicit File(std::string content = {});
    [[nodiscard]] std::string_view line(std::uint32_t number) const;
    [[nodiscard]] std::size_t offset(Position position) const;
    enum class Masking : bool { in_place, strict };
    [[nodiscard]] std::string masked(std::uint32_t number, Masking how) const;

    std::string text;
    std::vector<std::size_t> lines;                   // the offset at which each begins
    std::optional<std::vector<WrittenValue>> values;  // in the order of the file
  };

  std::vector<File> files_ = {File()};
  FileNames names_ = {{""}};
  std::vector<Substitution> substitutions_;
  std::vector<std::string> secrets_;
};

// The errors in a configuration, in the order of their positions.
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

// The text with `***` for each of the secrets. Shorter ones could be ordinary words of the text, and stay.
[[nodiscard]] std::string without_secrets(std::string text, const std::vector<std::string>& secrets);

// The number of characters in a text: the bytes that are not UTF-8 continuation bytes.
[[nodiscard]] std::uint32_t count_characters(std::string_view text);

}  // namespace sluice::app::config
