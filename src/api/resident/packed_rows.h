#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/resident/dictionary.h"
#include "api/resident/row_store.h"
#include "sql/rows.h"

namespace sluice::api::resident {

// Frequent texts of one column, numbered in the order of their first appearance.
class Words {
 public:
  static constexpr std::uint32_t none = Dictionary::none;

  // Returns the number of a text, and adds the text if there is room. Returns `none` if there is no room, or if
  // searching has stopped because this column has too few repeated texts.
  [[nodiscard]] std::uint32_t intern(sql::Form form, std::string_view text);
  [[nodiscard]] std::string_view text(std::uint32_t word) const { return texts_.at(word).bytes.substr(1); }
  [[nodiscard]] sql::Form form(std::uint32_t word) const {
    return static_cast<sql::Form>(texts_.at(word).bytes.front());
  }
  [[nodiscard]] std::size_t memory() const { return texts_.memory(); }

 private:
  Dictionary texts_{false};  // each entry: one byte with the sql::Form, then the text
  std::size_t bytes_ = 0;
  std::uint64_t tried_ = 0;  // lookups since the room ran out
  std::uint64_t found_ = 0;
  std::string scratch_;
};

// Rows as packed values: without names, quotes and escapes, with numbers and times in binary (see value_pack.h) and
// frequent texts as numbers. Unpacked fields are identical to the original fields, byte for byte.
class PackedRows {
 public:
  explicit PackedRows(std::span<const sql::Column> columns);
  // Creates an empty object with the words of `other`, so that packed rows can be copied from it.
  [[nodiscard]] static std::unique_ptr<PackedRows> with_words_of(const PackedRows& other);

  // The values of one row together are shorter than this.
  static constexpr std::size_t row_limit = RowStore::row_limit / 2;

  // Throws std::bad_alloc, as RowStore does. Precondition: one field per column, together shorter than row_limit.
  void append(std::span<const sql::Field> fields);
  // Precondition: this object was made with the words of `from`.
  void append_row(const PackedRows& from, std::uint32_t row) { rows_.append(from.rows_.row(row)); }
  // Frees memory that was reserved for growth. No append() may follow.
  void trim() { rows_.trim(); }

  [[nodiscard]] std::uint32_t size() const { return rows_.size(); }
  [[nodiscard]] std::size_t columns() const { return words_.size(); }
  [[nodiscard]] std::size_t bytes() const { return rows_.text().size(); }  // without the words
  [[nodiscard]] std::size_t memory() const;

  // Unpacks rows for one reader.
  class Reader {
   public:
    explicit Reader(const PackedRows& rows);
    // The row's fields. They are views into the rows and the reader, valid until the next call. Only the first
    // `columns` fields are set.
    [[nodiscard]] std::span<const sql::Field> row(std::uint32_t row, std::size_t columns);
    [[nodiscard]] std::span<const sql::Field> row(std::uint32_t row) { return this->row(row, fields_.size()); }

   private:
    const PackedRows& rows_;
    std::vector<sql::Field> fields_;
    std::unique_ptr<char[]> texts_;  // most_unpacked bytes per column
  };

 private:
  PackedRows(const std::vector<Words>& words, const std::vector<bool>& dynamic) : words_(words), dynamic_(dynamic) {}
  void pack(std::size_t column, const sql::Field& field);

  RowStore rows_;
  std::vector<Words> words_;   // by column
  std::vector<bool> dynamic_;  // by column: its fields may differ in their sql::Form
  std::string row_;
};

}  // namespace sluice::api::resident
