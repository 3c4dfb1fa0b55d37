#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/body/format.h"

namespace sluice::api {

// A value of the body, in valid UTF-8. A decoded JSON string may contain NUL, which databases do not accept.
struct Value {
  enum class Kind : std::uint8_t {
    missing,  // the row does not contain the name
    null,
    string,   // decoded; every value of csv and form
    number,   // as written: 1.50, 1e400
    boolean,  // "true" or "false"
    json,     // the text of an object or array
  };
  Kind kind = Kind::missing;
  std::string_view text;
  std::string_view json{};  // of json, ndjson and csj: a string or null as written, `"a\u00e9"`; otherwise empty
};

// The fields of rows. A name is a field ("a"), a field of a nested object ("a.b"), or "" for the whole row as JSON.
// Only json and ndjson provide the whole row; in other formats it is missing. csv, csj and form may also use "a.b"
// itself as a column name. A field that the shape does not name is a fault, also in nested objects, unless an enclosing
// object is named. A named field that occurs twice in a row is always a fault.
struct Shape {
  std::vector<std::string> names;  // the same name may occur twice
  bool allow_unknown = false;
  char delimiter = ',';              // between the fields of csv: ASCII, not a quote or a line end
  std::vector<std::size_t> trims{};  // indexes of names whose texts are trimmed of blanks
};

struct RowFault {
  std::uint64_t line = 0;    // 1-based line of the fault in the body
  std::uint64_t row = 0;     // 0-based
  std::string pointer;       // json, ndjson: "/3/slug", RFC 6901 from the body or the line; else the column's name
  std::string reason;        // valid UTF-8; long names are cut
  std::string constraint{};  // name of the database constraint that the row violates; mostly empty
  bool is_syntax = false;    // the row does not parse
};

struct RowLimits {
  std::size_t row_bytes = 1 << 20;  // of the row's text in the body, without separators
  std::size_t depth = 64;           // of nested objects and arrays; the row itself counts as the first
  // Fields of an object that are read; columns of a header; pairs of a form. At least as many as the shape has names.
  std::size_t columns = 1000;
};

// Reads the rows of one request body. Call feed() with received bytes, next() until it returns need_more, and finish()
// at the end of the body. Each row is returned as soon as it is complete, so the reader holds only one row and the
// bytes of one feed(). It does no I/O, and allocates nothing per row once its memory fits the longest row. How the body
// was cut does not affect the results of next().
class RowReader {
 public:
  enum class Next : std::uint8_t {
    row,
    need_more,
    end,
    bad_row,  // fault(); the following rows can still be read
    broken,   // fault(); nothing more can be read
  };

  // `shape` outlives the reader.
  [[nodiscard]] static std::unique_ptr<RowReader> make(BodyFormat format, const Shape& shape,
                                                       const RowLimits& limits = {});
  virtual ~RowReader() = default;

  // Copies the bytes. Allowed, any number of times, at first and after next() has returned need_more.
  virtual void feed(std::string_view bytes) = 0;
  // The body has ended: from now on next() returns row, bad_row, end or broken. Allowed at the same times as feed().
  virtual void finish() = 0;
  [[nodiscard]] virtual Next next() = 0;
  // The values in the order of Shape::names, after `row`. Valid until the next call of another function.
  [[nodiscard]] virtual std::span<const Value> row() const = 0;
  // Valid after `bad_row` and `broken`.
  [[nodiscard]] virtual const RowFault& fault() const = 0;
  // The line in which the row begins. Valid after `row`.
  [[nodiscard]] virtual std::uint64_t row_line() = 0;
  // A fault for a value of the row that is wrong for another reason. `name`: its index in Shape::names. Valid after
  // `row`.
  [[nodiscard]] virtual RowFault fault_of(std::size_t name, std::string reason) = 0;
  // The same for a position within the row (RFC 6901, from the row on).
  [[nodiscard]] virtual RowFault fault_at(std::string_view pointer, std::string reason) = 0;
  // The same for any row that has been read. `name`: index in Shape::names, or SIZE_MAX for the whole row.
  [[nodiscard]] virtual RowFault fault_in(std::uint64_t line, std::uint64_t row, std::size_t name,
                                          std::string reason) const = 0;
  // The row's text, for json and ndjson; otherwise empty. Valid after `row`, and as long as row().
  [[nodiscard]] virtual std::string_view row_text() const = 0;
  // Roughly how many bytes of the body it holds, including copies.
  [[nodiscard]] virtual std::size_t held() const = 0;
  // Whether the body is one object or a form, rather than an array or lines. Known with the first row.
  [[nodiscard]] virtual bool single() const = 0;
};

}  // namespace sluice::api
