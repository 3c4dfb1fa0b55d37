#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/body/field_tree.h"
#include "api/body/row_reader.h"
#include "base/buffer.h"

namespace sluice::api {

// Reads JSON values into a row, in one pass. Values are views into the text, or into separate memory if escapes had to
// be decoded. It follows RFC 8259 strictly and refuses what PostgreSQL refuses in JSON: strings must be valid UTF-8
// without lone surrogates, also in objects and arrays that are kept as text. Numbers are checked but not converted, so
// they may have any size. simdjson does not fit here: it converts numbers to doubles and integers, and cannot report
// the position of an error in a row. It is used only to check the UTF-8.
class JsonRow {
 public:
  JsonRow(FieldTree& fields, const RowLimits& limits) : fields_(fields), limits_(limits) {}

  // Begins a row in this text. *end must be 0, with BodyText::padding readable bytes from there. `end` must stay valid
  // while the row is read.
  void begin(const char* from, const char* end);

  // Reads all fields of a row as an object, or one field. False means a fault, or that the text ended before the value.
  // A node that occurs twice in a row is a fault.
  [[nodiscard]] bool object();
  [[nodiscard]] bool value(std::uint32_t field);
  [[nodiscard]] bool skip_value();
  void skip_blanks() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t') ++at_;
  }
  // Reads a string that is a column's name and not a value. The view lasts until the next call.
  [[nodiscard]] bool name(std::string_view& decoded);

  // The position after the text that was read, or the position of the fault.
  [[nodiscard]] const char* at() const { return at_; }
  void advance() { ++at_; }
  [[nodiscard]] bool ran_out() const { return ran_out_; }
  [[nodiscard]] bool is_syntax() const { return is_syntax_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] const std::string& pointer() const { return pointer_; }  // from the row on: "/a/b"

  // "/a/b" for the name "a.b".
  [[nodiscard]] static std::string pointer_to(std::string_view name);
  // Puts "/name" before a pointer, escaped (RFC 6901, 3).
  static void prepend(std::string_view name, std::string& pointer);

  // fail: the text is not JSON at `at`, or ends there. refuse: the text is JSON, but not an accepted row.
  bool fail(const char* at, std::string_view reason);
  bool refuse(const char* at, std::string_view reason);

 private:
  struct Text {
    const char* begin = nullptr;  // after the opening quote
    const char* end = nullptr;    // at the closing quote
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
  bool is_syntax_ = false;
  std::uint64_t row_ = 0;  // number of the current row, for Node::seen
  std::size_t depth_ = 0;
  Buffer decoded_;  // values are views into it, so it never moves within a row
  Buffer name_;
  std::string open_;  // the closing brackets of the containers around skip_value()'s position
  std::string reason_;
  std::string pointer_;
};

}  // namespace sluice::api
