#include "api/resident/index.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"

namespace sluice::api::resident {

bool Index::add(const Key& key) {
  const std::uint32_t id = values_.intern(key);
  if (id == Dictionary::none) return false;
  // While each row has exactly one new value, owners_ is not needed.
  if (unique_ && (id != row_ || values_.size() != row_ + 1)) {
    unique_ = false;
    ids_.resize(row_);
    owners_.resize(row_);
    std::iota(ids_.begin(), ids_.end(), 0U);
    std::iota(owners_.begin(), owners_.end(), 0U);
    if (values_.size() > row_ && id != row_) {
      // The row already has its first value.
      ids_.push_back(row_);
      owners_.push_back(row_);
    }
  }
  if (unique_) return true;
  ids_.push_back(id);
  owners_.push_back(row_);
  return true;
}

void Index::end_row() {
  std::size_t begin = ids_.size();
  while (begin > 0 && owners_[begin - 1] == row_) --begin;
  if (ids_.size() - begin > 1) {
    // An array may contain a value twice.
    const auto first = ids_.begin() + static_cast<std::ptrdiff_t>(begin);
    std::sort(first, ids_.end());
    ids_.erase(std::unique(first, ids_.end()), ids_.end());
    owners_.resize(ids_.size());
  }
  ++row_;
  if (unique_ && values_.size() != row_) {
    // The row had no value.
    unique_ = false;
    ids_.resize(row_ - 1);
    owners_.resize(row_ - 1);
    std::iota(ids_.begin(), ids_.end(), 0U);
    std::iota(owners_.begin(), owners_.end(), 0U);
  }
}

void Index::build() {
  const std::uint32_t count = values_.size();
  if (!unique_) {
    starts_.assign(std::size_t{count} + 1, 0);
    for (const std::uint32_t id : ids_) ++starts_[id + 1];
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
    rows_.resize(ids_.size());
    std::vector<std::uint32_t> next(starts_.begin(), starts_.end() - 1);
    for (std::size_t i = 0; i < ids_.size(); ++i) rows_[next[ids_[i]]++] = owners_[i];
  }
  values_.trim();
  nulls_.shrink_to_fit();

  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0U);
  if (is_fixed(type_.kind)) {
    // Copies the keys next to the ids, so that sorting accesses memory sequentially.
    std::vector<std::pair<std::uint64_t, std::uint32_t>> keys(count);
    for (std::uint32_t id = 0; id < count; ++id) keys[id] = {values_.at(id).number, id};
    if (!std::ranges::is_sorted(keys)) std::ranges::sort(keys);
    for (std::uint32_t i = 0; i < count; ++i) order_[i] = keys[i].second;
  } else {
    std::vector<std::pair<std::string_view, std::uint32_t>> keys(count);
    for (std::uint32_t id = 0; id < count; ++id) keys[id] = {values_.at(id).bytes, id};
    if (!std::ranges::is_sorted(keys)) std::ranges::sort(keys);
    for (std::uint32_t i = 0; i < count; ++i) order_[i] = keys[i].second;
  }
  rank_rows(std::ranges::is_sorted(order_));
  // Assigning an empty list would not free the memory.
  ids_ = std::vector<std::uint32_t>();
  owners_ = std::vector<std::uint32_t>();
}

// Computes the ranks of rows from `order_`, which is not needed if the values are in order.
void Index::rank_rows(bool in_order) {
  const std::uint32_t count = values_.size();
  if (type_.is_single() && !(unique_ && in_order)) {
    const auto fill = [&](auto& ranks) {
      ranks.assign(row_, static_cast<std::remove_cvref_t<decltype(ranks[0])>>(count));
      for (std::uint32_t rank = 0; rank < count; ++rank) {
        for (const std::uint32_t row : rows_of_rank(rank))
          ranks[row] = static_cast<std::remove_cvref_t<decltype(ranks[0])>>(rank);
      }
    };
    if (count < 0xff) {
      fill(row_ranks8_);
    } else if (count < 0xffff) {
      fill(row_ranks16_);
    } else {
      fill(row_ranks_);
    }
  }
  if (in_order) order_ = std::vector<std::uint32_t>();
}

Postings Index::rows_of(std::uint32_t id) const {
  if (unique_) return {.rows = nullptr, .count = 1, .single = id};
  return {.rows = rows_.data() + starts_[id], .count = starts_[id + 1] - starts_[id], .single = 0};
}

std::uint32_t Index::rank(const Key& key, bool above) const {
  std::uint32_t first = 0;
  std::uint32_t count = values_.size();
  while (count != 0) {
    const std::uint32_t half = count / 2;
    const Key middle = values_.at(id_of(first + half));
    if (above ? !values_.less(key, middle) : values_.less(middle, key)) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

std::uint64_t Index::count(Range range) const {
  if (unique_) return range.last - range.first;
  if (order_.empty()) return starts_[range.last] - starts_[range.first];
  std::uint64_t sum = 0;
  for (std::uint32_t rank = range.first; rank < range.last; ++rank) sum += rows_of_rank(rank).count;
  return sum;
}

std::uint32_t Index::rank_of_row(std::uint32_t row) const {
  SLUICE_ASSERT(type_.is_single());
  if (!row_ranks8_.empty()) return row_ranks8_[row];
  if (!row_ranks16_.empty()) return row_ranks16_[row];
  if (!row_ranks_.empty()) return row_ranks_[row];
  return row;
}

std::size_t Index::used() const {
  return values_.used() + (ids_.size() + owners_.size() + nulls_.size()) * sizeof(std::uint32_t);
}

std::size_t Index::memory() const {
  return values_.memory() +
         (nulls_.capacity() + starts_.capacity() + rows_.capacity() + order_.capacity() + row_ranks_.capacity()) *
             sizeof(std::uint32_t) +
         (ids_.capacity() + owners_.capacity()) * sizeof(std::uint32_t) +
         row_ranks16_.capacity() * sizeof(std::uint16_t) + row_ranks8_.capacity();
}

}  // namespace sluice::api::resident
