#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sql/rows.h"

// How a column's values compare: by their type, never by their notation. A value is converted to a Key. Two values of
// the same kind compare as their keys do.
namespace sluice::api::resident {

enum class Kind : std::uint8_t {
  integer,  // 64 bits
  number,   // any decimal: 1.5 equals 1.50; NaN is the greatest, as in PostgreSQL
  boolean,  // false < true
  date,
  timestamp,     // microseconds
  timestamp_tz,  // microseconds, in UTC
  text,          // compared by bytes
  uuid,          // compared by bytes, in any notation that PostgreSQL accepts
  dynamic,       // SQLite: numbers before texts before blobs
};

// The type of a column's values and how to split them.
struct ValueType {
  enum class Shape : std::uint8_t {
    scalar,
    array,  // PostgreSQL's text form: {a,b}
    json,   // elements of a JSON array, or one scalar, compared as texts; rows of a SQLite column may have either
  };
  // How a column's values are written, if not in the usual notation of their kind.
  enum class Spelling : std::uint8_t {
    plain,
    padded,    // char(n): trailing blanks are ignored
    time,      // 12:30 equals 12:30:00
    macaddr,   // any case, any separators between the octets
    macaddr8,  // any case, any separators between the octets
    numeric,   // `dynamic`, declared as numbers; queries search only for numbers
    boolean,   // `dynamic`, declared as booleans; queries convert values as writes do
  };
  Kind kind = Kind::text;
  Shape shape = Shape::scalar;
  Spelling spelling = Spelling::plain;
  char delimiter = ',';
  bool ordered = true;  // keys sort as in the database; if false, only equality is meaningful

  // Returns nullopt if values of this column cannot be compared (composites, bytes).
  [[nodiscard]] static std::optional<ValueType> of(const sql::Column& column);
  // Whether a row has at most one value.
  [[nodiscard]] bool is_single() const { return shape == Shape::scalar; }
  // Whether rows can be sorted by it and found by ranges.
  [[nodiscard]] bool orders() const { return is_single() && ordered; }
};

// For messages: "an integer", "a date (2026-11-22)".
[[nodiscard]] std::string_view describe(const ValueType& type);

// Whether the keys of a kind are numbers. Otherwise they are bytes, which compare as with memcmp.
[[nodiscard]] constexpr bool is_fixed(Kind kind) {
  return kind == Kind::integer || kind == Kind::boolean || kind == Kind::date || kind == Kind::timestamp ||
         kind == Kind::timestamp_tz;
}

struct Key {
  std::uint64_t number = 0;  // if is_fixed()
  std::string_view bytes;    // otherwise; a view into the text or the scratch memory
};

// Makes the key of a value's text in the notations of databases and clients: ISO 8601 with `T` or a blank. Returns
// false if the text is not such a value. For `dynamic`, a text that looks like a number is a number.
[[nodiscard]] bool make_key(Kind kind, std::string_view text, std::string& scratch, Key& key);
// The same for a field of a block. `type` is its column's type, a scalar. For `dynamic` the field's own form decides.
[[nodiscard]] bool make_key(const ValueType& type, const sql::Field& field, std::string& scratch, Key& key);
// The same for a value in a client's query.
[[nodiscard]] bool make_asked_key(const ValueType& type, std::string_view text, std::string& scratch, Key& key);
// A second possible key: the text itself, if it looks like a number and the column does not declare its type.
[[nodiscard]] bool make_asked_text_key(const ValueType& type, std::string_view text, std::string& scratch, Key& key);
// A second possible key: bytes in the notation of answers, `\x0aff`.
[[nodiscard]] bool make_asked_bytes_key(const ValueType& type, std::string_view text, std::string& scratch, Key& key);

// Appends bytes that sort like the decimal, in the notation of PostgreSQL, SQLite or JSON: `-1.50e3`, NaN, Infinity.
// Returns false if the text is not a decimal or its exponent exceeds 16 bits.
[[nodiscard]] bool append_decimal_key(std::string_view text, std::string& out);

}  // namespace sluice::api::resident
