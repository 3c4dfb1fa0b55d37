#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/body/field_tree.h"
#include "api/body/row_reader.h"
#include "base/buffer.h"

namespace sluice::api {

// Reads one JSON value after the other into a row, in one pass: values are views into the text, or into memory of its
// own where escapes had to be decoded. RFC 8259 strictly, and nothing that PostgreSQL takes in no JSON: strings are
// valid UTF-8 without lone surrogates, inside of objects and arrays that are passed on as well. Numbers are checked but
// not read, so they may be of any size. (simdjson reads numbers into doubles and integers, and cannot say where in a row
// its text was wrong; it checks the UTF-8.)
class JsonRow {
 public:
  JsonRow(FieldTree& fields, const RowLimits& limits) : fields_(fields), limits_(limits) {}

  // Begins a row in this text. *end is 0, and BodyText::padding bytes are readable there; end() stays while it is read.
  void begin(const char* from, const char* end);

  // One of the row's fields, or all of them as an object: false is a fault, or that the text ends before the value
  // does. A node of the tree that is read twice in a row is a fault.
  [[nodiscard]] bool object();
  [[nodiscard]] bool value(std::uint32_t field);
  [[nodiscard]] bool skip_value();
  void skip_blanks() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t') ++at_;
  }
  // A string that is no value: a column's name. The view lasts until the next call.
  [[nodiscard]] bool name(std::string_view& decoded);

  // Behind what was read, or where the fault is.
  [[nodiscard]] const char* at() const { return at_; }
  void advance() { ++at_; }
  [[nodiscard]] bool ran_out() const { return ran_out_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] const std::string& pointer() const { return pointer_; }  // from the row on: "/a/b"

  // "/a/b" for the name "a.b".
  [[nodiscard]] static std::string pointer_to(std::string_view name);
  // Puts "/name" before a pointer, escaped (RFC 6901, 3).
  static void prepend(std::string_view name, std::string& pointer);

  // Records a fault, or that the text has run out if it is there that it would be.
  bool fail(const char* at, std::string_view reason);

 private:
  struct Text {
    const char* begin = nullptr;  // behind the quote
    const char* end = nullptr;    // on the quote
    bool escaped = false;
  };

  bool members(FieldTree::Node& node);
  bool key(FieldTree::Node& node, std::uint32_t& expected, std::uint32_t& child);
  bool skip_name();
  bool string(Text& text);
  bool escape(const char*& at);
  bool number();
  bool word(std::string_view expected);
  [[nodiscard]] std::string_view decoded(const Text& text, Buffer& to) const;

  FieldTree& fields_;
  RowLimits limits_;
  const char* begin_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  bool ran_out_ = false;
  std::uint64_t row_ = 0;  // tells the rows' stamps apart
  std::size_t depth_ = 0;
  Buffer decoded_;  // never moves within a row: views into it are values
  Buffer name_;
  std::string open_;  // what closes the containers that skip_value() is in
  std::string reason_;
  std::string pointer_;
};

}  // namespace sluice::api
