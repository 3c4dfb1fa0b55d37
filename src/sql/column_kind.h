#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::sql {

// What a column makes of the values that are written to it, as far as its declared type decides that.
enum class ColumnKind : std::uint8_t {
  // PostgreSQL, up to server_json.
  by_server,     // PostgreSQL reads the value's text as the column's type
  server_value,  // likewise, of types that have no empty text: numbers, dates, uuid, enums, arrays
  server_json,   // likewise: json, jsonb
  // SQLite.
  any,  // BLOB affinity without the name, ANY of a STRICT table; a parameter of a statement, whose column is unknown
  integer,  // these three by their affinity
  real,
  text,
  numeric,  // NUMERIC affinity by a name of numbers: NUMERIC, DECIMAL(10,2), NUMBER
  value,    // NUMERIC affinity by a name of values that have no empty text: DATE, TIMESTAMP, UUID
  other,    // NUMERIC affinity by any other name: STRING
  bytes,    // BLOB
  boolean,  // BOOL, BOOLEAN
  json,     // JSON, JSONB
};

[[nodiscard]] constexpr bool is_json(ColumnKind kind) {
  return kind == ColumnKind::json || kind == ColumnKind::server_json;
}

// Whether the column takes numbers or truth values alone.
[[nodiscard]] constexpr bool is_number_or_boolean(ColumnKind kind) {
  return kind == ColumnKind::integer || kind == ColumnKind::real || kind == ColumnKind::numeric ||
         kind == ColumnKind::boolean;
}
// Whether an empty text is no value of the column: what CSV and forms say of a field that was left empty.
[[nodiscard]] constexpr bool has_no_empty_text(ColumnKind kind) {
  return is_number_or_boolean(kind) || is_json(kind) || kind == ColumnKind::value || kind == ColumnKind::server_value;
}

// By SQLite's rules for names (sqlite.org/datatype3.html, 3.1), which give BOOLEAN and JSON the affinity NUMERIC.
[[nodiscard]] ColumnKind sqlite_column_kind(std::string_view declared_type);

}  // namespace sluice::sql
