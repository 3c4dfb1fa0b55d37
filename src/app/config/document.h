#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/source.h"
#include "base/declare.h"

namespace sluice::app::config {

struct Entry;

// A TOML value with its place in the file: what the reader sees of the TOML library.
struct Value {
  enum class Kind : std::uint8_t { string, integer, real, boolean, date, list, table };

  Kind kind = Kind::table;
  Position position;
  std::string text;          // a string's; of an integer, real or boolean how it is written
  bool substituted = false;  // the string holds something from the environment
  bool broken = false;       // already complained about: the reader passes it over
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

// Reads TOML; a syntax error ends it, and is the only one. Tells `source` what may be shown of it.
[[nodiscard]] std::optional<Value> parse_document(Source& source, std::vector<Diagnostic>& errors);

// Replaces ${NAME} and ${NAME:-default} in every string; $${ stands for ${. As in a shell, the default also stands in
// for an empty variable. Adds to `source` what was replaced.
void substitute(Value& value, const Environment& environment, Source& source, std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
