#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sql/database.h"

// Statements are written with :name parameters. Here they become the database's own numbered placeholders; everything
// that only looks like a parameter (in a string, an identifier, a comment, a cast) stays as it is.
namespace sluice::sql {

// Whose lexical rules apply, and how a placeholder is spelled.
enum class PlaceholderStyle : std::uint8_t {
  dollar,    // PostgreSQL: $1
  question,  // SQLite: ?1
};

struct ParsedSql {
  struct Placeholder {
    std::uint32_t begin, end;                // bytes in `text`
    std::uint32_t source_begin, source_end;  // bytes in the statement as it was written
  };

  // A :name inside a string or a quoted identifier, where it is text. Its views are into the statement as it was
  // written.
  struct Quoted {
    std::string name;
    std::uint32_t source_begin;      // byte of the colon
    std::string_view before, after;  // what stands around it within the quotes
  };

  std::string text;                       // one statement; no semicolon, blank or comment at its end
  std::vector<std::string> names;         // names[i] is placeholder i + 1; each name once, in order of appearance
  std::vector<Placeholder> placeholders;  // in order of appearance
  std::vector<Quoted> quoted;             // in order of appearance

  // The byte of the source that the byte `offset` of `text` came from; for a placeholder, the colon of its name.
  [[nodiscard]] std::uint32_t source_offset(std::uint32_t offset) const;
};

inline constexpr std::size_t statement_max_bytes = 16 << 20;

// Exactly one statement. Refused, with a position in `sql`: no or several statements, constructs that don't end, NUL
// bytes, and the database's own placeholders, which would mix up the numbering.
[[nodiscard]] Result<ParsedSql> parse_parameters(std::string_view sql, PlaceholderStyle style);

// Whether a text is a value of the type, of a list an element: decimal and in range, without blanks; `true`, `false`,
// `t`, `f`, `1`, `0`; `\x0aff`, with hexadecimal digits in pairs.
[[nodiscard]] bool fits(ParameterType type, std::string_view text);

// Error::position counts characters from 1, as PostgreSQL does; these convert from and to bytes of UTF-8.
[[nodiscard]] std::uint32_t character_position(std::string_view sql, std::size_t byte_offset);
[[nodiscard]] std::size_t byte_offset(std::string_view sql, std::uint32_t character_position);

}  // namespace sluice::sql
