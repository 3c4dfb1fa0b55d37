#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/source.h"
#include "base/declare.h"

namespace sluice::app::config {

struct Entry;

// A TOML value with its position in the file. The reader sees only this, not the types of the TOML library.
struct Value {
  enum class Kind : std::uint8_t { string, integer, real, boolean, date, list, table };

  Kind kind = Kind::table;
  Position position;
  std::string text;          // the text of a string; for an integer, real or boolean, its text in the file
  bool substituted = false;  // the string contains text from the environment or from a secret's file
  bool broken = false;       // already reported: the reader skips it
  std::int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  std::vector<Value> items;
  std::vector<Entry> entries;  // in the order of the file
};

struct Entry {
  Located<std::string> key;
  Value value;
};

// "a string", "a table".
[[nodiscard]] std::string_view name_of(Value::Kind kind);

using Environment = std::function<std::optional<std::string>(std::string_view name)>;
// Returns the content of the file of a secret, or an error. `path` is as written, and `position` says in which file.
using ReadSecret = std::function<std::expected<std::string, std::string>(std::string_view path, Position position)>;

// Parses TOML, one file of the source. A syntax error ends the parsing and is the only error reported. Tells `source`
// which values messages may show.
[[nodiscard]] std::optional<Value> parse_document(Source& source, std::vector<Diagnostic>& errors,
                                                  std::uint32_t file = 0);

// Replaces ${NAME}, ${NAME:-default} and ${file:PATH} in every string; $${ stands for ${. As in a shell, the default
// also replaces an empty variable. Records the replacements and the secrets in `source`.
void substitute(Value& value, const Environment& environment, const ReadSecret& read_secret, Source& source,
                std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
