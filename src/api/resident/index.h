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

// The rows with one value, in ascending order: a view into the index, or a single row without a list.
struct Postings {
  const std::uint32_t* rows = nullptr;  // null if `single` is the only row
  std::uint32_t count = 0;
  std::uint32_t single = 0;

  [[nodiscard]] std::uint32_t size() const { return count; }
  [[nodiscard]] const std::uint32_t* begin() const { return rows != nullptr ? rows : &single; }
  [[nodiscard]] const std::uint32_t* end() const { return begin() + count; }
};

// The rows of each value in one column, with a hash table for equality and a sorted order. Immutable once it is built.
//
// A value is identified by its id, in order of appearance, or by its rank, in sorted order. A unique column needs no
// postings. If its values also come in sorted order, it needs no ranks either.
class Index {
 public:
  explicit Index(const ValueType& type) : type_(type), values_(is_fixed(type.kind)) {}

  // ---- Building: values are added in the order of the rows. Returns false if all values together exceed 4 GiB.
  [[nodiscard]] bool add(const Key& key);
  void add_null() { nulls_.push_back(row_); }
  void end_row();
  // The memory used so far, including what only the build needs.
  [[nodiscard]] std::size_t used() const;
  // Sorts the values after all rows have been added. May take long and may run on any thread.
  void build();

  // Makes the index of a table of `rows` rows that come from two other tables, without sorting. The places map a row of
  // each old table to its row in the new table, or to Dictionary::none if it was removed. Rows of `old` keep their
  // order. Both indexes have the same type. Returns null if the values exceed 4 GiB.
  [[nodiscard]] static std::unique_ptr<Index> merged(const Index& old, std::span<const std::uint32_t> old_places,
                                                     const Index& other, std::span<const std::uint32_t> other_places,
                                                     std::uint32_t rows);

  // ---- After build() or merged().
  [[nodiscard]] const ValueType& type() const { return type_; }
  [[nodiscard]] std::uint32_t values() const { return values_.size(); }
  // Returns Dictionary::none if no row has the value.
  [[nodiscard]] std::uint32_t find(const Key& key) const { return values_.find(key); }
  [[nodiscard]] Postings rows_of(std::uint32_t id) const;
  // The result is a view. Precondition: unique().
  [[nodiscard]] Key value_of_row(std::uint32_t row) const { return values_.at(row); }
  // The result is a view.
  [[nodiscard]] Key value(std::uint32_t id) const { return values_.at(id); }
  [[nodiscard]] const std::vector<std::uint32_t>& nulls() const { return nulls_; }
  // Each row has exactly one value, and all values are different.
  [[nodiscard]] bool unique() const { return unique_; }

  // The ranks [first, last).
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };
  // The first rank whose value is not less than the key; with `above`, the first whose value is greater.
  [[nodiscard]] std::uint32_t rank(const Key& key, bool above) const;
  [[nodiscard]] Postings rows_of_rank(std::uint32_t rank) const { return rows_of(id_of(rank)); }
  // The total number of rows that the ranks have.
  [[nodiscard]] std::uint64_t count(Range range) const;
  // The rank of the row's value, or values() for NULL. Precondition: the type is_single().
  [[nodiscard]] std::uint32_t rank_of_row(std::uint32_t row) const;
  // The id of the row's value, or Dictionary::none for NULL. Precondition: the type is_single().
  [[nodiscard]] std::uint32_t id_of_row(std::uint32_t row) const {
    const std::uint32_t rank = rank_of_row(row);
    return rank == values() ? Dictionary::none : id_of(rank);
  }

  [[nodiscard]] std::uint32_t id_of(std::uint32_t rank) const { return order_.empty() ? rank : order_[rank]; }

  [[nodiscard]] std::size_t memory() const;

 private:
  void rank_rows(bool in_order);

  ValueType type_;
  Dictionary values_;
  std::uint32_t row_ = 0;              // the current row while building
  std::vector<std::uint32_t> ids_;     // the values of the rows while building
  std::vector<std::uint32_t> owners_;  // the rows of ids_, from the first row that does not have exactly one new value
  bool unique_ = true;
  std::vector<std::uint32_t> nulls_;
  std::vector<std::uint32_t> starts_;  // start of each id in rows_, and the end; empty if each id is its row
  std::vector<std::uint32_t> rows_;
  std::vector<std::uint32_t> order_;      // rank to id; empty if they are the same number
  std::vector<std::uint32_t> row_ranks_;  // only one of the three is used; none if each rank is its row
  std::vector<std::uint16_t> row_ranks16_;
  std::vector<std::uint8_t> row_ranks8_;
};

}  // namespace sluice::api::resident
