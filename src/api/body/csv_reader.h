#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/body/reader.h"
#include "base/buffer.h"

namespace sluice::api {

// Finds the line end that ends a record, which may not be a good one, without looking at a byte twice. A quote counts
// where a field begins, and inside of a field that began with one.
class RecordScan {
 public:
  explicit RecordScan(char delimiter) : delimiter_(delimiter) {}
  // Null: it does not end before `end`; then again with what follows. `begin` is what quote() counts from.
  [[nodiscard]] const char* run(const char* begin, const char* at, const char* end);
  void clear() { *this = RecordScan(delimiter_); }

  [[nodiscard]] bool in_quotes() const { return state_ == State::quoted; }
  // Where the last quoted field that run() came to begins; none: it came to none.
  static constexpr std::size_t none = SIZE_MAX;
  [[nodiscard]] std::size_t quote() const { return quote_; }
  void forget_quote() { quote_ = none; }

 private:
  enum class State : std::uint8_t { field, plain, quoted, quote };
  char delimiter_;
  State state_ = State::field;
  std::size_t quote_ = none;
};

// text/csv (RFC 4180) with a header line. As PostgreSQL's COPY reads it: a field that is empty without quotes is null.
// A record is parsed where it lies as soon as it is there; one that is not whole, or not good, is first looked through
// for its end.
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
    bool doubled;  // has quotes that stand for one
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
  // Of the cell that parse() came to, or none.
  [[nodiscard]] std::string_view name_of(std::size_t cell) const {
    return cell < names_.size() ? std::string_view(names_[cell]) : std::string_view{};
  }

  const char delimiter_;
  std::vector<std::string> names_;      // of the header, once it has been read
  std::vector<std::uint32_t> columns_;  // their nodes
  std::vector<Cell> cells_;             // of the record that was parsed; no more than names_, or than are allowed
  std::size_t cell_count_ = 0;
  const char* record_end_ = nullptr;  // on its LF
  const char* after_ = nullptr;       // behind it
  const char* bad_at_ = nullptr;
  const char* bad_reason_ = nullptr;
  Buffer decoded_;  // never moves within a row
  RecordScan scan_;
  std::size_t scanned_ = 0;  // of the record that begins where the text does
  std::uint64_t quote_line_ = 0;
  bool plain_ = false;  // the record that was parsed is ASCII without NUL for sure
  bool started_ = false;
  bool has_header_ = false;
  bool skipping_ = false;
};

}  // namespace sluice::api
