#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "api/resident/dictionary.h"
#include "api/resident/value.h"

namespace sluice::api::resident {

// Rows in ascending order, of one value: a view into the index, or one row by itself.
struct Postings {
  const std::uint32_t* rows = nullptr;  // null: `single` is the only one
  std::uint32_t count = 0;
  std::uint32_t single = 0;

  [[nodiscard]] std::uint32_t size() const { return count; }
  [[nodiscard]] const std::uint32_t* begin() const { return rows != nullptr ? rows : &single; }
  [[nodiscard]] const std::uint32_t* end() const { return begin() + count; }
};

// Which rows have which value in one column: by hash for equality, and in order. Immutable once it is built.
//
// Values are called by their id, in order of appearance, or by their rank, in order of size. A column in which each row
// has a value of its own costs no postings; one that comes in order costs no ranks either.
class Index {
 public:
  explicit Index(const ValueType& type) : type_(type), values_(is_fixed(type.kind)) {}

  // ---- While rows come, in order. False: the values are longer than 4 GiB together.
  [[nodiscard]] bool add(const Key& key);
  void add_null() { nulls_.push_back(row_); }
  void end_row();
  // What rows have filled so far, with what is there for the building alone.
  [[nodiscard]] std::size_t used() const;
  // When all are there: puts the values in order. Takes its time, on any thread.
  void build();

  // The index that a table would have which was made of rows of two others: `places` says of each row where it is now,
  // Dictionary::none of one that is not there any more; those of `old` keep their order. Both are of one type. It sorts
  // nothing. Null: the values are longer than 4 GiB.
  [[nodiscard]] static std::unique_ptr<Index> merged(const Index& old, std::span<const std::uint32_t> old_places,
                                                     const Index& other, std::span<const std::uint32_t> other_places,
                                                     std::uint32_t rows);

  // ---- Afterwards.
  [[nodiscard]] const ValueType& type() const { return type_; }
  [[nodiscard]] std::uint32_t values() const { return values_.size(); }
  // Dictionary::none: no row has it.
  [[nodiscard]] std::uint32_t find(const Key& key) const { return values_.find(key); }
  [[nodiscard]] Postings rows_of(std::uint32_t id) const;
  // A view. Precondition: unique().
  [[nodiscard]] Key value_of_row(std::uint32_t row) const { return values_.at(row); }
  [[nodiscard]] const std::vector<std::uint32_t>& nulls() const { return nulls_; }
  // Each row has a value, and no two the same.
  [[nodiscard]] bool unique() const { return unique_; }

  // Ranks from `first` up to, not including, `last`.
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  // The first rank that is not below the key, or, with `above`, the first that is above it.
  [[nodiscard]] std::uint32_t rank(const Key& key, bool above) const;
  [[nodiscard]] Postings rows_of_rank(std::uint32_t rank) const { return rows_of(id_of(rank)); }
  // How many rows the ranks of a range have together.
  [[nodiscard]] std::uint64_t count(Range range) const;
  // Where the row's value stands in the order; values() for NULL. Only of a type that is_single().
  [[nodiscard]] std::uint32_t rank_of_row(std::uint32_t row) const;

  [[nodiscard]] std::size_t memory() const;

 private:
  void rank_rows(bool in_order);
  [[nodiscard]] std::uint32_t id_of(std::uint32_t rank) const { return order_.empty() ? rank : order_[rank]; }

  ValueType type_;
  Dictionary values_;
  std::uint32_t row_ = 0;              // while they come
  std::vector<std::uint32_t> ids_;     // while rows come, their values; parallel to row_ids_ where rows have several
  std::vector<std::uint32_t> owners_;  // of ids_, from the first row on that has not exactly one new value
  bool unique_ = true;
  std::vector<std::uint32_t> nulls_;
  std::vector<std::uint32_t> starts_;  // of each id in rows_, and the end; empty: id and row are the same number
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint32_t> order_;      // rank to id; empty: the same number
  std::vector<std::uint32_t> row_ranks_;  // one of these three, by how many values there are; empty: the row itself
  std::vector<std::uint16_t> row_ranks16_;
  std::vector<std::uint8_t> row_ranks8_;
};

}  // namespace sluice::api::resident
