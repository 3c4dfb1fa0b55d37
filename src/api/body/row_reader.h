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

// A value as the body has it, valid UTF-8. A decoded string of JSON may hold NUL, which JSON can say and a text cannot.
struct Value {
  enum class Kind : std::uint8_t {
    missing,  // the row does not name it
    null,
    string,   // decoded; every value of csv and form
    number,   // as it is written: 1.50, 1e400
    boolean,  // "true" or "false"
    json,     // an object's or an array's own text
  };
  Kind kind = Kind::missing;
  std::string_view text;
  std::string_view json{};  // of json, ndjson and csj: a string or null as it is written, `"a\u00e9"`; else empty
};

// What rows are made of. A name is a field's ("a"), one inside of objects ("a.b"), or "" for the whole row as json,
// which only json and ndjson have: it is missing elsewhere. csv, csj and form may also use "a.b" itself as a name. A
// field that is not named is a fault, in nested objects too, unless the object that it lies in is named as well; one
// that is named and there twice always is.
struct Shape {
  std::vector<std::string> names;  // the same one may be there twice
  bool allow_unknown = false;
  char delimiter = ',';              // between the fields of csv: ASCII, no quote and no line end
  std::vector<std::size_t> trims{};  // of these names, blanks at the ends of a text do not count
};

struct RowFault {
  std::uint64_t line = 0;    // 1-based, in the body: where the fault is
  std::uint64_t row = 0;     // 0-based
  std::string pointer;       // RFC 6901, from the body's (ndjson: the line's) root: "/3/slug"; else the column's name
  std::string reason;        // valid UTF-8; long names are cut
  std::string constraint{};  // of the database, that the row breaks; mostly empty
};

struct RowLimits {
  std::size_t row_bytes = 1 << 20;  // of its text in the body, without what separates it
  std::size_t depth = 64;           // of nested objects and arrays; the row itself is the first
  std::size_t columns = 1000;       // fields of an object that are read; columns of a header; pairs of a form
};

// The rows of one request body: feed() what has come, next() until it wants more; finish() when nothing follows. Rows
// come out as they are complete, so that memory is one row and what was fed at once. Does no I/O, and allocates nothing
// for a row once its memory has grown to the longest one. What next() says does not depend on how the body was cut.
class RowReader {
 public:
  enum class Next : std::uint8_t {
    row,
    need_more,
    end,
    bad_row,  // fault(); the rows behind it can still be read
    broken,   // fault(); nothing more can be read
  };

  // `shape` outlives the reader.
  [[nodiscard]] static std::unique_ptr<RowReader> make(BodyFormat format, const Shape& shape,
                                                       const RowLimits& limits = {});
  virtual ~RowReader() = default;

  // Copies the bytes. Only at first and after next() has said need_more, any number of times.
  virtual void feed(std::string_view bytes) = 0;
  // The body has ended: next() says row, bad_row, end or broken from now on. Likewise.
  virtual void finish() = 0;
  [[nodiscard]] virtual Next next() = 0;
  // In the order of Shape::names, after `row`; until the next call of anything else.
  [[nodiscard]] virtual std::span<const Value> row() const = 0;
  // After `bad_row` and `broken`.
  [[nodiscard]] virtual const RowFault& fault() const = 0;
  // The line that the row begins in. After `row`.
  [[nodiscard]] virtual std::uint64_t row_line() = 0;
  // That a value of the row, by its place in Shape::names, is wrong for another reason. After `row`.
  [[nodiscard]] virtual RowFault fault_of(std::size_t name, std::string reason) = 0;
  // Likewise, of a place within the row (RFC 6901, from the row on).
  [[nodiscard]] virtual RowFault fault_at(std::string_view pointer, std::string reason) = 0;
  // Likewise, of any row that has been read: its `name`, or SIZE_MAX for all of it.
  [[nodiscard]] virtual RowFault fault_in(std::uint64_t line, std::uint64_t row, std::size_t name,
                                          std::string reason) const = 0;
  // The row as it is written, of json and ndjson; else nothing. After `row`, and as long.
  [[nodiscard]] virtual std::string_view row_text() const = 0;
  // About how many bytes of the body it holds, in all forms.
  [[nodiscard]] virtual std::size_t held() const = 0;
  // Whether the body is one object (or a form), rather than an array or lines: known with the first row.
  [[nodiscard]] virtual bool single() const = 0;
};

}  // namespace sluice::api
