#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "api/body/body_text.h"
#include "api/body/field_tree.h"
#include "api/body/row_reader.h"

namespace sluice::api {

// Converts the pointer "/a/b" to the name "a.b".
[[nodiscard]] std::string column_of(std::string_view pointer);

// The common part of the readers of all formats.
class Reader : public RowReader {
 public:
  void feed(std::string_view bytes) final { text_.feed(bytes); }
  void finish() final { finished_ = true; }
  [[nodiscard]] Next next() final {
    if (last_ == Next::end || last_ == Next::broken) return last_;
    return last_ = step();
  }
  [[nodiscard]] std::span<const Value> row() const final { return fields_.values(); }
  [[nodiscard]] const RowFault& fault() const final { return fault_; }
  [[nodiscard]] std::uint64_t row_line() final { return text_.line_of(row_begin_); }
  [[nodiscard]] RowFault fault_of(std::size_t name, std::string reason) final {
    return fault_in(row_line(), row_ - 1, name, std::move(reason));
  }
  [[nodiscard]] RowFault fault_at(std::string_view pointer, std::string reason) final {
    return {.line = row_line(), .row = row_ - 1, .pointer = place_of(pointer, row_ - 1), .reason = std::move(reason)};
  }
  [[nodiscard]] RowFault fault_in(std::uint64_t line, std::uint64_t row, std::size_t name,
                                  std::string reason) const final {
    return {.line = line,
            .row = row,
            .pointer = name == SIZE_MAX ? place_of({}, row) : pointer_to(shape_.names[name], row),
            .reason = std::move(reason)};
  }
  // Counts the bytes that were fed, and the decoded values of a row.
  [[nodiscard]] std::size_t held() const final { return 2 * text_.capacity(); }
  [[nodiscard]] std::string_view row_text() const final {
    return row_end_ != nullptr ? std::string_view(row_begin_, row_end_) : std::string_view{};
  }

 protected:
  Reader(const Shape& shape, const RowLimits& limits) : fields_(shape), limits_(limits), shape_(shape) {}

  [[nodiscard]] virtual Next step() = 0;
  // The name of a row's field in faults.
  [[nodiscard]] virtual std::string pointer_to(std::string_view name, std::uint64_t) const { return std::string(name); }

  // The name of a position within a row in faults.
  [[nodiscard]] virtual std::string place_of(std::string_view pointer, std::uint64_t) const {
    return column_of(pointer);
  }

  [[nodiscard]] bool finished() const { return finished_; }

  // Returns a good row that begins here. `end` is null if the format is not JSON.
  Next good_row(const char* begin, const char* end = nullptr) {
    row_begin_ = begin;
    row_end_ = end;
    fields_.complete();
    ++row_;
    return Next::row;
  }
  Next bad_row(const char* at, std::string_view reason, std::string_view pointer = {}, bool is_syntax = false) {
    set_fault(at, reason, pointer);
    fault_.is_syntax = is_syntax;
    ++row_;
    return Next::bad_row;
  }
  Next too_long(const char* at) {
    return bad_row(at, "the row is longer than " + std::to_string(limits_.row_bytes) + " bytes");
  }
  Next broken(const char* at, std::string_view reason, std::string_view pointer = {}) {
    set_fault(at, reason, pointer);
    return Next::broken;
  }

  // Skips a byte order mark. Returns false if more bytes are needed to recognize it.
  [[nodiscard]] bool skip_mark() {
    constexpr std::string_view mark = "\xef\xbb\xbf";
    const std::string_view text(text_.begin(), static_cast<std::size_t>(text_.end() - text_.begin()));
    if (text.starts_with(mark)) {
      text_.use_to(text_.begin() + mark.size());
      return true;
    }
    return finished_ || !mark.starts_with(text);
  }

  BodyText text_;
  FieldTree fields_;
  RowLimits limits_;
  RowFault fault_;
  std::uint64_t row_ = 0;  // rows so far, good and bad

 private:
  void set_fault(const char* at, std::string_view reason, std::string_view pointer) {
    fault_.line = text_.line_of(at);
    fault_.row = row_;
    fault_.pointer = pointer;
    fault_.reason = reason;
  }

  const Shape& shape_;
  const char* row_begin_ = nullptr;
  const char* row_end_ = nullptr;
  bool finished_ = false;
  Next last_ = Next::need_more;
};

// Whether the bytes are valid UTF-8 without NUL, which every database accepts as text.
[[nodiscard]] bool is_text(std::string_view bytes);

}  // namespace sluice::api
