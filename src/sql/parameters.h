#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sql/database.h"

// Replaces the :name parameters of a statement with the database's own numbered placeholders. Everything that only
// looks like a parameter (in a string, an identifier, a comment, a cast) stays as it is.
namespace sluice::sql {

// Which database's lexical rules apply, and how a placeholder is written.
enum class PlaceholderStyle : std::uint8_t {
  dollar,    // PostgreSQL: $1
  question,  // SQLite: ?1
};

struct ParsedSql {
  struct Placeholder {
    std::uint32_t begin, end;                // bytes in `text`
    std::uint32_t source_begin, source_end;  // bytes in the statement as it was written
  };

  // A :name inside a string or a quoted identifier, where it is text. The views point into the original statement.
  struct Quoted {
    std::string name;
    std::uint32_t source_begin;      // byte of the colon
    std::string_view before, after;  // the text around it within the quotes
  };

  std::string text;                       // one statement; no semicolon, blank or comment at its end
  std::vector<std::string> names;         // names[i] is placeholder i + 1; each name once, in order of appearance
  std::vector<Placeholder> placeholders;  // in order of appearance
  std::vector<Quoted> quoted;             // in order of appearance

  // The original statement's byte that corresponds to byte `offset` of `text`; for a placeholder, its name's colon.
  [[nodiscard]] std::uint32_t source_offset(std::uint32_t offset) const;
};

inline constexpr std::size_t statement_max_bytes = 16 << 20;

// Accepts exactly one statement. Refuses, with a position in `sql`: no statement or several, unterminated constructs,
// NUL bytes, and the database's own placeholders, because they would disturb the numbering.
[[nodiscard]] Result<ParsedSql> parse_parameters(std::string_view sql, PlaceholderStyle style);

// Whether a text is a value of the type, or, for a list type, of its elements. Numbers are decimal, in range and
// without blanks; booleans are `true`, `false`, `t`, `f`, `1`, `0`; bytes are `\x0aff`, with hexadecimal digits in
// pairs.
[[nodiscard]] bool fits(ParameterType type, std::string_view text);

// Error::position counts characters from 1, as PostgreSQL does; these convert from and to bytes of UTF-8.
[[nodiscard]] std::uint32_t character_position(std::string_view sql, std::size_t byte_offset);
[[nodiscard]] std::size_t byte_offset(std::string_view sql, std::uint32_t character_position);

}  // namespace sluice::sql
