#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::sql {

// How a column converts the values that are written to it, as far as its declared type decides that.
enum class ColumnKind : std::uint8_t {
  // PostgreSQL.
  by_server,     // PostgreSQL reads the value's text as the column's type
  server_value,  // the same, for types in which an empty text is invalid: numbers, dates, uuid, enums, arrays
  server_json,   // the same, for json and jsonb
  // SQLite.
  any,      // BLOB affinity without the name BLOB; ANY of a STRICT table; a parameter whose column is unknown
  integer,  // integer, real and text: by affinity
  real,
  text,
  numeric,  // NUMERIC affinity, and the type's name means numbers: NUMERIC, DECIMAL(10,2), NUMBER
  value,    // NUMERIC affinity, and the type's name means values that are never empty: DATE, TIMESTAMP, UUID
  other,    // NUMERIC affinity by any other name: STRING, or ANY of a table that is not STRICT
  bytes,    // BLOB
  boolean,  // BOOL, BOOLEAN
  json,     // JSON, JSONB
};

[[nodiscard]] constexpr bool is_json(ColumnKind kind) {
  return kind == ColumnKind::json || kind == ColumnKind::server_json;
}

// Whether the column takes only numbers or truth values.
[[nodiscard]] constexpr bool is_number_or_boolean(ColumnKind kind) {
  return kind == ColumnKind::integer || kind == ColumnKind::real || kind == ColumnKind::numeric ||
         kind == ColumnKind::boolean;
}
// Whether an empty text is invalid in the column. CSV and forms send an empty text for a field that was left empty.
[[nodiscard]] constexpr bool has_no_empty_text(ColumnKind kind) {
  return is_number_or_boolean(kind) || is_json(kind) || kind == ColumnKind::value || kind == ColumnKind::server_value;
}

// Applies SQLite's rules for type names (sqlite.org/datatype3.html, 3.1). They give the affinity NUMERIC to BOOLEAN and
// JSON, and outside of STRICT tables to ANY too.
enum class Strictness : std::uint8_t { loose, strict };
[[nodiscard]] ColumnKind sqlite_column_kind(std::string_view declared_type, Strictness table = Strictness::strict);

}  // namespace sluice::sql
