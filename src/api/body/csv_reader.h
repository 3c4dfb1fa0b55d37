#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/body/reader.h"
#include "base/buffer.h"

namespace sluice::api {

// Finds the line end that ends a record, even a malformed record, and looks at each byte only once. A quote is special
// only at the beginning of a field, and inside a field that began with one.
class RecordScan {
 public:
  explicit RecordScan(char delimiter) : delimiter_(delimiter) {}
  // Returns null if the record does not end before `end`; call it again with the bytes that follow. quote() counts from
  // `begin`.
  [[nodiscard]] const char* run(const char* begin, const char* at, const char* end);
  void clear() { *this = RecordScan(delimiter_); }

  [[nodiscard]] bool in_quotes() const { return state_ == State::quoted; }
  // The offset of the last quoted field that run() has reached; `none` if it has not reached any.
  static constexpr std::size_t none = SIZE_MAX;
  [[nodiscard]] std::size_t quote() const { return quote_; }
  void forget_quote() { quote_ = none; }

 private:
  enum class State : std::uint8_t { field, plain, quoted, quote };
  char delimiter_;
  State state_ = State::field;
  std::size_t quote_ = none;
};

// text/csv (RFC 4180) with a header line. As in PostgreSQL's COPY, an empty field without quotes is null. A record is
// parsed in place as soon as it has arrived. If it is incomplete or malformed, RecordScan first finds its end.
class CsvReader final : public Reader {
 public:
  CsvReader(const Shape& shape, const RowLimits& limits)
      : Reader(shape, limits), delimiter_(shape.delimiter), scan_(shape.delimiter) {}

  [[nodiscard]] bool single() const override { return false; }

 private:
  struct Cell {
    const char* begin;
    const char* end;
    bool quoted;
    bool doubled;  // has doubled quotes, each of which stands for one
  };
  enum class Parsed : std::uint8_t { record, bad, ran_out };

  Next step() override;
  Next skip_record();
  Next taken(const char* begin);
  Next header();
  Next values(const char* begin);
  Parsed parse(const char* begin, const char* end);
  Parsed bad(const char* at, const char* reason);
  Next refused(const char* at, std::string_view reason, std::string_view name = {});
  [[nodiscard]] std::string_view text_of(const Cell& cell);
  // The name of the cell's column; empty if the header has no such column.
  [[nodiscard]] std::string_view name_of(std::size_t cell) const {
    return cell < names_.size() ? std::string_view(names_[cell]) : std::string_view{};
  }

  const char delimiter_;
  std::vector<std::string> names_;      // of the header, once it has been read
  std::vector<std::uint32_t> columns_;  // the fields_ node of each
  std::vector<Cell> cells_;             // of the last parsed record; at most columns_.size(), or the limit in a header
  std::size_t cell_count_ = 0;
  const char* record_end_ = nullptr;  // the record's LF
  const char* after_ = nullptr;       // the byte after it
  const char* bad_at_ = nullptr;
  const char* bad_reason_ = nullptr;
  Buffer decoded_;  // never moves within a row
  RecordScan scan_;
  std::size_t scanned_ = 0;  // bytes already scanned of the record at the beginning of the text
  std::uint64_t quote_line_ = 0;
  bool plain_ = false;  // the last parsed record is known to be ASCII without NUL
  bool started_ = false;
  bool has_header_ = false;
  bool skipping_ = false;
};

}  // namespace sluice::api
