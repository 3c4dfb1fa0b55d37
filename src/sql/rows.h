#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::sql {

// How a value, given as the database's text, is written in JSON. CSV writes the text unchanged.
enum class Form : std::uint8_t {
  text,          // quoted and escaped
  number,        // passes through; NaN, Infinity and -Infinity are quoted
  boolean,       // "t" or "f"
  json,          // passes through (json, jsonb)
  timestamp,     // 2026-11-21 18:48:34.5       -> "2026-11-21T18:48:34.5"
  timestamp_tz,  // 2026-11-21 18:48:34.5+00    -> "2026-11-21T18:48:34.5+00:00"
  array,         // {1,2,NULL}; elements have the element type's form
  composite,     // (1,"a b",); attributes have their types' forms
  bytes,         // raw bytes (SQLite BLOB) -> "\\x0aff"; in CSV \x0aff
  dynamic,       // the column has no type; each field has its own form (SQLite)
};

struct Attribute;

// Immutable once a column that refers to it has been handed out; shared by all cores.
struct Type {
  Form form = Form::text;
  char delimiter = ',';                 // between an array's elements; ';' for box, ' ' for int2vector and
                                        // oidvector, whose text has no braces
  std::shared_ptr<const Type> element;  // array
  std::vector<Attribute> attributes;    // composite, in order
};

struct Attribute {
  std::string name;
  std::shared_ptr<const Type> type;
};

struct Column {
  std::string name;
  std::shared_ptr<const Type> type;
  std::uint32_t type_id = 0;    // the database's own number for the type (PostgreSQL: its OID); 0: none
  std::string declared_type{};  // SQLite: as in the table's declaration; empty if this is not a table's column, or has
                                // no declared type
};

// One value, as a view into the database's buffer. NULL has no data.
struct Field {
  const char* data = nullptr;
  std::uint32_t size = 0;
  Form form = Form::text;  // used only if the column's form is `dynamic`

  [[nodiscard]] bool is_null() const { return data == nullptr; }
  [[nodiscard]] std::string_view view() const { return {data, size}; }
};

// Rows as views: `fields` is row-major, rows * columns.size() long.
struct Block {
  // Usually the statement's own list; another list if the table has changed since the statement was prepared. All
  // blocks of one answer have the same list. Equal data() means equal columns: see Database.
  std::span<const Column> columns;
  std::span<const Field> fields;
  std::size_t rows = 0;
  bool last = false;  // nothing follows; a last block may be empty

  [[nodiscard]] std::span<const Field> row(std::size_t index) const {
    return fields.subspan(index * columns.size(), columns.size());
  }
};

}  // namespace sluice::sql
