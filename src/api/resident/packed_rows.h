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

// The texts that come again and again in one column. They have the numbers in which they first came.
class Words {
 public:
  static constexpr std::uint32_t none = Dictionary::none;

  // The number of a text, which is new where there is room for more; none: there is not, or looking for words has
  // turned out not to pay here.
  [[nodiscard]] std::uint32_t intern(sql::Form form, std::string_view text);
  [[nodiscard]] std::string_view text(std::uint32_t word) const { return texts_.at(word).bytes.substr(1); }
  [[nodiscard]] sql::Form form(std::uint32_t word) const {
    return static_cast<sql::Form>(texts_.at(word).bytes.front());
  }
  [[nodiscard]] std::size_t memory() const { return texts_.memory(); }

 private:
  Dictionary texts_{false};  // behind a byte for the form
  std::size_t bytes_ = 0;
  std::uint64_t tried_ = 0;  // since there is no room for more
  std::uint64_t found_ = 0;
  std::string scratch_;
};

// Rows as values: without names, quotes and escapes, numbers and times in binary (see value_pack.h), and words by their
// numbers. Fields come out as they went in, byte by byte.
class PackedRows {
 public:
  explicit PackedRows(std::span<const sql::Column> columns);
  // No rows yet, and the words of `other`, so that its rows can be taken over as they are.
  [[nodiscard]] static std::unique_ptr<PackedRows> with_words_of(const PackedRows& other);

  // What one row's values are shorter than together.
  static constexpr std::size_t row_limit = RowStore::row_limit / 2;

  // Throws std::bad_alloc, as RowStore does. Precondition: as many fields as columns, shorter than row_limit together.
  void append(std::span<const sql::Field> fields);
  // Precondition: these were made with the words of `from`.
  void append_row(const PackedRows& from, std::uint32_t row) { rows_.append(from.rows_.row(row)); }
  // Gives back what was room to grow. No append() follows.
  void trim() { rows_.trim(); }

  [[nodiscard]] std::uint32_t size() const { return rows_.size(); }
  [[nodiscard]] std::size_t columns() const { return words_.size(); }
  [[nodiscard]] std::size_t bytes() const { return rows_.text().size(); }  // without the words
  [[nodiscard]] std::size_t memory() const;

  // Unpacks rows for one reader.
  class Reader {
   public:
    explicit Reader(const PackedRows& rows);
    // Its fields: views of the rows and of the reader, until the next call. Of columns from `columns` on nothing is
    // said.
    [[nodiscard]] std::span<const sql::Field> row(std::uint32_t row, std::size_t columns);
    [[nodiscard]] std::span<const sql::Field> row(std::uint32_t row) { return this->row(row, fields_.size()); }

   private:
    const PackedRows& rows_;
    std::vector<sql::Field> fields_;
    std::unique_ptr<char[]> texts_;  // most_unpacked bytes a column
  };

 private:
  PackedRows(const std::vector<Words>& words, const std::vector<bool>& dynamic) : words_(words), dynamic_(dynamic) {}
  void pack(std::size_t column, const sql::Field& field);

  RowStore rows_;
  std::vector<Words> words_;   // by column
  std::vector<bool> dynamic_;  // by column: its fields say their own form
  std::string row_;
};

}  // namespace sluice::api::resident
