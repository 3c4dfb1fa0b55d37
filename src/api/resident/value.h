#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sql/rows.h"

// How the values of a column compare: by their type, never by how they happen to be spelled. A value becomes a Key, and
// two of one kind compare as their keys do.
namespace sluice::api::resident {

enum class Kind : std::uint8_t {
  integer,       // 64 bits
  number,        // any decimal: 1.5 and 1.50 are one; NaN is the greatest, as PostgreSQL has it
  boolean,       // false < true
  date,          //
  timestamp,     // in microseconds
  timestamp_tz,  // likewise, in UTC
  text,          // by its bytes
  uuid,          // likewise, in whichever way PostgreSQL takes it
  dynamic,       // SQLite: numbers before texts before blobs
};

// What a column's values are, and how they are taken apart.
struct ValueType {
  enum class Shape : std::uint8_t {
    scalar,
    array,  // PostgreSQL's text form: {a,b}
    json,   // elements of a JSON array, or one scalar: compared as texts. A SQLite column may be either in each row
  };
  // How values may be spelled beyond what their kind says.
  enum class Spelling : std::uint8_t {
    plain,
    padded,    // char(n): blanks at the end count for nothing
    time,      // 12:30 is 12:30:00
    macaddr,   // any case, and any signs between the octets
    macaddr8,  // likewise
    numeric,   // `dynamic`, and declared as numbers: nobody asks for anything else
    boolean,   // `dynamic`, and declared as booleans: asked for as values of a request are written to them
  };
  Kind kind = Kind::text;
  Shape shape = Shape::scalar;
  Spelling spelling = Spelling::plain;
  char delimiter = ',';
  bool ordered = true;  // what is greater here is greater in the database; else values are the same or not

  // Nothing: values of this column cannot be compared (composites, bytes).
  [[nodiscard]] static std::optional<ValueType> of(const sql::Column& column);
  // Whether a row has one value at most.
  [[nodiscard]] bool is_single() const { return shape == Shape::scalar; }
  // Whether rows can be put in order by it, and found by ranges.
  [[nodiscard]] bool orders() const { return is_single() && ordered; }
};

// For the user: "an integer", "a date (2026-11-22)".
[[nodiscard]] std::string_view describe(const ValueType& type);

// Whether the keys of a kind are numbers; else they are bytes, which compare as memcmp has it.
[[nodiscard]] constexpr bool is_fixed(Kind kind) {
  return kind == Kind::integer || kind == Kind::boolean || kind == Kind::date || kind == Kind::timestamp ||
         kind == Kind::timestamp_tz;
}

struct Key {
  std::uint64_t number = 0;  // where is_fixed()
  std::string_view bytes;    // otherwise: a view of the text, or of the scratch it was made in
};

// The key of a value's text, as databases write it and as clients may: ISO 8601 with `T` or a blank. False: it is no
// such value. `dynamic` takes what looks like a number for one.
[[nodiscard]] bool make_key(Kind kind, std::string_view text, std::string& scratch, Key& key);
// Of a field of a block; `type` is its column's, and a scalar. For `dynamic` the field's own form decides.
[[nodiscard]] bool make_key(const ValueType& type, const sql::Field& field, std::string& scratch, Key& key);
// Of what a client asks for in a column.
[[nodiscard]] bool make_asked_key(const ValueType& type, std::string_view text, std::string& scratch, Key& key);
// The other key that it may mean as well: a text that looks like a number, where a column says nothing of its values.
[[nodiscard]] bool make_asked_text_key(const ValueType& type, std::string_view text, std::string& scratch, Key& key);
// Likewise bytes, as answers show them: `\x0aff`.
[[nodiscard]] bool make_asked_bytes_key(const ValueType& type, std::string_view text, std::string& scratch, Key& key);

// Order-preserving bytes of a decimal as PostgreSQL, SQLite and JSON spell it: `-1.50e3`, NaN, Infinity. False: it is
// none, or its exponent is beyond 16 bits.
[[nodiscard]] bool append_decimal_key(std::string_view text, std::string& out);

}  // namespace sluice::api::resident
