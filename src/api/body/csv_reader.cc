#include "api/body/csv_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sql/encode/scan.h"

namespace sluice::api {
namespace {

using sql::encode::Chunk;

std::string fields(std::size_t count) { return std::to_string(count) + (count == 1 ? " field" : " fields"); }

}  // namespace

const char* RecordScan::run(const char* begin, const char* at, const char* end) {
  for (; at != end; ++at) {
    switch (state_) {
      case State::quoted: {
        const auto* found = static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(end - at)));
        if (found == nullptr) return nullptr;
        at = found;
        state_ = State::quote;
        continue;
      }
      case State::field:
      case State::quote:
        if (*at == '"') {
          if (state_ == State::field) quote_ = static_cast<std::size_t>(at - begin);
          state_ = State::quoted;
          continue;
        }
        state_ = State::plain;
        [[fallthrough]];
      case State::plain:
        if (*at == '\n') return at;
        if (*at == delimiter_) state_ = State::field;
        break;
    }
  }
  return nullptr;
}

RowReader::Next CsvReader::step() {
  if (!started_) {
    if (!skip_mark()) return Next::need_more;
    started_ = true;
  }
  *text_.end() = '\n';  // stops parse() at the end
  if (skipping_) {
    if (const Next next = skip_record(); next != Next::row) return next;
  }
  const char* const begin = text_.begin();
  const char* const end = text_.end();
  if (begin == end) {
    if (!finished()) return Next::need_more;
    return has_header_ ? Next::end : broken(begin, "the body is empty");
  }
  bool parsed = false;
  if (scanned_ == 0) {
    if (parse(begin, end) == Parsed::record) return taken(begin);
    parsed = true;
  }
  const char* stop = scan_.run(begin, begin + scanned_, end);
  const auto size = static_cast<std::size_t>((stop != nullptr ? stop : end) - begin);
  if (size > limits_.row_bytes) {
    const Next next = refused(begin, "the row is longer than " + std::to_string(limits_.row_bytes) + " bytes");
    if (scan_.quote() != RecordScan::none) quote_line_ = text_.line_of(begin + scan_.quote());
    text_.use_to(stop != nullptr ? stop + 1 : end);
    skipping_ = stop == nullptr;
    scanned_ = 0;
    if (!skipping_) scan_.clear();
    return next;
  }
  if (stop == nullptr && !finished()) {
    scanned_ = size;
    return Next::need_more;
  }
  if (stop == nullptr && scan_.in_quotes()) {
    const char* const quote = begin + scan_.quote();
    return broken(quote, "a quote begins in line " + std::to_string(text_.line_of(quote)) + " and never ends");
  }
  if (!parsed && parse(begin, end) == Parsed::record) return taken(begin);
  text_.use_to(stop != nullptr ? stop + 1 : end);
  scan_.clear();
  scanned_ = 0;
  return refused(bad_at_, bad_reason_, name_of(cell_count_));
}

// Skips a record that is too long and has been reported. Returns `row` at its end.
RowReader::Next CsvReader::skip_record() {
  const char* const begin = text_.begin();
  const char* const end = text_.end();
  scan_.forget_quote();
  const char* const stop = scan_.run(begin, begin, end);
  if (scan_.quote() != RecordScan::none) quote_line_ = text_.line_of(begin + scan_.quote());
  text_.use_to(stop != nullptr ? stop + 1 : end);
  if (stop == nullptr && !finished()) return Next::need_more;
  if (stop == nullptr && scan_.in_quotes()) {
    const Next next = broken(end, "a quote begins in line " + std::to_string(quote_line_) + " and never ends");
    fault_.line = quote_line_;
    return next;
  }
  scan_.clear();
  skipping_ = false;
  return Next::row;
}

// Nothing can be read after an invalid header.
RowReader::Next CsvReader::refused(const char* at, std::string_view reason, std::string_view name) {
  return has_header_ ? bad_row(at, reason, name) : broken(at, reason, name);
}

RowReader::Next CsvReader::taken(const char* begin) {
  text_.use_to(after_);
  scan_.clear();
  scanned_ = 0;
  const auto size = static_cast<std::size_t>(record_end_ - begin);
  if (size > limits_.row_bytes) {
    return refused(begin, "the row is longer than " + std::to_string(limits_.row_bytes) + " bytes");
  }
  if (!plain_ && !is_text({begin, size})) [[unlikely]] {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const Cell& cell = cells_[i];
      const std::string_view text(cell.begin, cell.end);
      if (is_text(text)) continue;
      const bool has_nul = text.find('\0') != std::string_view::npos;
      return refused(cell.begin,
                     has_nul ? "the field holds the character NUL, which no text of a database may"
                             : "the field is not valid UTF-8",
                     name_of(i));
    }
  }
  decoded_.clear();
  if (!has_header_) return header();
  return values(begin);
}

RowReader::Next CsvReader::header() {
  const char* const begin = cells_[0].begin;
  if (cell_count_ == 1 && cells_[0].begin == cells_[0].end) return broken(begin, "the header line is empty");
  if (cell_count_ > limits_.columns) {
    return broken(begin, "the header has more than " + std::to_string(limits_.columns) + " columns");
  }
  for (const Cell& cell : cells_) {
    const std::string_view name = text_of(cell);
    const std::uint32_t node = fields_.column(name);
    if (node == FieldTree::none && !fields_.allows_unknown()) {
      return broken(cell.begin, "there is no field \"" + shown(name) + "\"", shown(name));
    }
    if (std::ranges::find(names_, name) != names_.end()) {
      return broken(cell.begin, "the column is there twice", shown(name));
    }
    names_.emplace_back(name);
    columns_.push_back(node);
  }
  has_header_ = true;
  return step();
}

RowReader::Next CsvReader::values(const char* begin) {
  if (cell_count_ != columns_.size()) {
    return bad_row(begin, "the row has " + fields(cell_count_) + ", the header has " + fields(columns_.size()));
  }
  fields_.clear();
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    if (columns_[i] == FieldTree::none) continue;
    const Cell& cell = cells_[i];
    const bool null = !cell.quoted && cell.begin == cell.end;
    fields_.set(fields_.at(columns_[i]),
                {null ? Value::Kind::null : Value::Kind::string, null ? std::string_view{} : text_of(cell)});
  }
  return good_row(begin);
}

std::string_view CsvReader::text_of(const Cell& cell) {
  const auto size = static_cast<std::size_t>(cell.end - cell.begin);
  if (!cell.doubled) return {cell.begin, size};
  if (decoded_.empty()) {
    static_cast<void>(decoded_.reserve(static_cast<std::size_t>(record_end_ - cells_[0].begin) + Chunk::size));
  }
  // Copies in chunks, which may reach past the end. Bytes that are stored there are not counted.
  char* const start = decoded_.reserve(size + Chunk::size);
  char* to = start;
  for (const char* at = cell.begin; at < cell.end;) {
    const Chunk chunk = Chunk::load(at);
    chunk.store(to);
    const unsigned quotes = chunk.quotes();
    const std::size_t taken = quotes == 0 ? Chunk::size : static_cast<std::size_t>(std::countr_zero(quotes)) + 1;
    to += std::min(taken, static_cast<std::size_t>(cell.end - at));
    at += quotes == 0 ? taken : taken + 1;  // the second quote of the pair
  }
  const auto written = static_cast<std::size_t>(to - start);
  decoded_.commit(written);
  return {start, written};
}

CsvReader::Parsed CsvReader::bad(const char* at, const char* reason) {
  bad_at_ = at;
  bad_reason_ = reason;
  return Parsed::bad;
}

// Finds special bytes sixteen at a time, including a line end that follows the text. Examines each byte once.
CsvReader::Parsed CsvReader::parse(const char* begin, const char* end) {
  const char delimiter = delimiter_;
  const char* base = begin;
  unsigned specials = 0;
  unsigned doubts = 0;
  const auto look = [&] {
    const Chunk chunk = Chunk::load(base);
    specials = chunk.csv_specials(delimiter);
    doubts |= chunk.no_plain_text();
  };
  look();
  const auto next = [&] {
    while (specials == 0) {
      base += Chunk::size;
      look();
    }
    const char* const found = base + std::countr_zero(specials);
    specials &= specials - 1;
    return found;
  };
  const std::size_t most = has_header_ ? columns_.size() : std::max<std::size_t>(limits_.columns, 1);
  cells_.clear();
  cell_count_ = 0;
  for (const char* field = begin;;) {
    Cell cell{field, field, false, false};
    const char* at = next();
    if (at == field && *at == '"') {
      cell.begin = field + 1;
      cell.quoted = true;
      for (;;) {
        at = next();
        if (at >= end) return Parsed::ran_out;
        if (*at != '"') continue;
        if (at + 1 == end && !finished()) return Parsed::ran_out;
        if (at + 1 == end || at[1] != '"') break;
        next();
        cell.doubled = true;
      }
      cell.end = at;
      if (at + 1 != end && at[1] != delimiter && at[1] != '\n' && at[1] != '\r') {
        return bad(at + 1, "there is text behind a closing quote");
      }
      at = next();
    } else {
      cell.end = at;
    }
    // A line end: LF, CR LF, or CR at the end of the body.
    if (at < end) {
      if (*at == '"') return bad(at, "there is a quote in a field that does not begin with one");
      if (*at == '\r') {
        if (at + 1 == end && !finished()) return Parsed::ran_out;
        if (at[1] != '\n') return bad(at, "there is a carriage return outside of quotes");
        at = next();
      }
    } else if (!finished()) {
      return Parsed::ran_out;
    }
    ++cell_count_;
    if (cells_.size() < most) cells_.push_back(cell);
    if (at < end && *at == delimiter) {
      field = at + 1;
      continue;
    }
    record_end_ = at;
    plain_ = doubts == 0;
    after_ = std::min(at + 1, end);
    return Parsed::record;
  }
}

}  // namespace sluice::api
