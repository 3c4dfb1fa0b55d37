#include "api/resident/packed_rows.h"

#include <cstring>
#include <utility>

#include "api/resident/value_pack.h"
#include "base/assert.h"

namespace sluice::api::resident {
namespace {

// Per column: a few pages, so that they stay in a reader's cache.
constexpr std::uint32_t most_words = 4096;
constexpr std::size_t most_word_bytes = 64 * 1024;
// Longer texts are not stored as words.
constexpr std::size_t longest_word = 256;
// When the words are full, this many more values are looked up. If fewer than one in four is found, lookups stop.
constexpr std::uint64_t trial = 1024;
constexpr std::uint64_t worthwhile = 4;

// The number of words with a first byte of their own. Other words need a second byte.
constexpr std::uint32_t head_words = pack::short_text - pack::word;
constexpr std::uint32_t byte_words = 256;

void append_sized(std::string_view text, std::string& out) {
  const auto size = static_cast<std::uint32_t>(text.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(text);
}

std::string_view read_sized(const char* from) {
  std::uint32_t size = 0;
  std::memcpy(&size, from, sizeof size);
  return {from + sizeof size, size};
}

void append_word(std::uint32_t word, std::string& out) {
  if (word < head_words) {
    out.push_back(static_cast<char>(pack::word + word));
    return;
  }
  word -= head_words;
  if (word < byte_words) {
    out.push_back(static_cast<char>(pack::word1));
    out.push_back(static_cast<char>(word));
    return;
  }
  word -= byte_words;
  out.push_back(static_cast<char>(pack::word2));
  out.push_back(static_cast<char>(word));
  out.push_back(static_cast<char>(word >> 8));
}

void append_text(std::string_view text, std::string& out) {
  if (text.size() < 0x100 - pack::short_text) {
    out.push_back(static_cast<char>(pack::short_text + text.size()));
    out.append(text);
  } else {
    out.push_back(static_cast<char>(pack::text));
    append_sized(text, out);
  }
}

}  // namespace

std::uint32_t Words::intern(sql::Form form, std::string_view text) {
  if (text.size() > longest_word || text.empty()) return none;
  const bool full = texts_.size() >= most_words || bytes_ + text.size() > most_word_bytes;
  if (full && tried_ >= trial && found_ < tried_ / worthwhile) return none;
  scratch_.assign(1, static_cast<char>(form));
  scratch_ += text;
  const Key key{.number = 0, .bytes = scratch_};
  if (!full) {
    const std::uint32_t before = texts_.size();
    const std::uint32_t word = texts_.intern(key);
    if (texts_.size() != before) bytes_ += text.size();
    return word;
  }
  ++tried_;
  const std::uint32_t word = texts_.find(key);
  if (word != none) ++found_;
  return word;
}

PackedRows::PackedRows(std::span<const sql::Column> columns) : words_(columns.size()) {
  for (const sql::Column& column : columns) {
    dynamic_.push_back(column.type && column.type->form == sql::Form::dynamic);
  }
}

std::unique_ptr<PackedRows> PackedRows::with_words_of(const PackedRows& other) {
  return std::unique_ptr<PackedRows>(new PackedRows(other.words_, other.dynamic_));
}

void PackedRows::append(std::span<const sql::Field> fields) {
  SLUICE_ASSERT(fields.size() == words_.size());
  row_.clear();
  for (std::size_t column = 0; column < fields.size(); ++column) pack(column, fields[column]);
  rows_.append(row_);
}

// In a column whose fields have their own form, packed numbers are numbers. Other packed values, except words, are
// text.
void PackedRows::pack(std::size_t column, const sql::Field& field) {
  if (field.is_null()) {
    row_.push_back(static_cast<char>(pack::null));
    return;
  }
  const bool dynamic = dynamic_[column];
  const sql::Form form = dynamic ? field.form : sql::Form::text;
  const std::string_view text = field.view();
  if ((!dynamic || form == sql::Form::number) && append_packed_number(text, row_)) return;
  if (form == sql::Form::text && append_packed_time_or_uuid(text, row_)) return;
  if (const std::uint32_t word = words_[column].intern(form, text); word != Words::none) {
    return append_word(word, row_);
  }
  if (form == sql::Form::text) return append_text(text, row_);
  row_.push_back(static_cast<char>(pack::other));
  row_.push_back(static_cast<char>(form));
  append_sized(text, row_);
}

std::size_t PackedRows::memory() const {
  std::size_t sum = rows_.memory();
  for (const Words& words : words_) sum += words.memory();
  return sum;
}

PackedRows::Reader::Reader(const PackedRows& rows)
    : rows_(rows),
      fields_(rows.columns()),
      texts_(std::make_unique_for_overwrite<char[]>(rows.columns() * most_unpacked)) {}

std::span<const sql::Field> PackedRows::Reader::row(std::uint32_t row, std::size_t columns) {
  const char* at = rows_.rows_.row(row).data();
  for (std::size_t column = 0; column < columns; ++column) {
    sql::Field& field = fields_[column];
    const auto head = static_cast<unsigned char>(*at++);
    const auto take = [&](std::string_view text, sql::Form form) {
      field = {.data = text.data(), .size = static_cast<std::uint32_t>(text.size()), .form = form};
    };
    const auto take_word = [&](std::uint32_t word) {
      const Words& words = rows_.words_[column];
      take(words.text(word), words.form(word));
    };
    if (head >= pack::short_text) {
      take({at, static_cast<std::size_t>(head - pack::short_text)}, sql::Form::text);
      at += field.size;
    } else if (head >= pack::word) {
      take_word(head - pack::word);
    } else if (head == pack::null) {
      field = {};
    } else if (head == pack::text || head == pack::other) {
      const sql::Form form = head == pack::text ? sql::Form::text : static_cast<sql::Form>(*at++);
      const std::string_view text = read_sized(at);
      take(text, form);
      at = text.data() + text.size();
    } else if (head == pack::word1) {
      take_word(head_words + static_cast<unsigned char>(*at++));
    } else if (head == pack::word2) {
      take_word(head_words + byte_words + static_cast<unsigned char>(at[0]) +
                (std::uint32_t{static_cast<unsigned char>(at[1])} << 8));
      at += 2;
    } else {
      char* const begin = texts_.get() + column * most_unpacked;
      const char* const end = unpack_value(head, at, begin);
      take({begin, static_cast<std::size_t>(end - begin)},
           is_packed_number(head) ? sql::Form::number : sql::Form::text);
      at += packed_size(head);
    }
  }
  return {fields_.data(), columns};
}

}  // namespace sluice::api::resident
