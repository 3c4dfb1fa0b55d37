#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/assert.h"

namespace sluice::api::resident {

// Rows as adjacent texts in one block of memory, so that consecutive rows are one view. Adds 4 bytes per row.
class RowStore {
 public:
  RowStore() = default;
  RowStore(RowStore&& other) noexcept { swap(other); }
  RowStore& operator=(RowStore&& other) noexcept {
    RowStore(std::move(other)).swap(*this);
    return *this;
  }
  ~RowStore();

  // Each row is shorter than this.
  static constexpr std::size_t row_limit = std::size_t{1} << 31;

  // Throws std::bad_alloc, also if 256 consecutive rows exceed 4 GiB.
  void append(std::string_view row);
  // Frees memory that was reserved for growth. No append() may follow.
  void trim();

  [[nodiscard]] std::uint32_t size() const { return count_; }
  [[nodiscard]] std::string_view row(std::uint32_t index) const {
    SLUICE_ASSERT(index < count_);
    const std::size_t begin = start_of(index);
    return {data_ + begin, start_of(index + 1) - begin};
  }
  // The rows [first, last).
  [[nodiscard]] std::string_view rows(std::uint32_t first, std::uint32_t last) const {
    SLUICE_ASSERT(first <= last && last <= count_);
    const std::size_t begin = start_of(first);
    return {data_ + begin, start_of(last) - begin};
  }
  [[nodiscard]] std::string_view text() const { return {data_, size_}; }
  [[nodiscard]] std::size_t memory() const {
    return capacity_ + starts_.capacity() * sizeof(std::uint32_t) + bases_.capacity() * sizeof(std::size_t);
  }

 private:
  // Starts are relative to the first row of their group.
  static constexpr std::uint32_t group_bits = 8;
  static constexpr std::uint32_t group_mask = (1u << group_bits) - 1;

  [[nodiscard]] std::size_t start_of(std::uint32_t index) const {
    return index == count_ ? size_ : bases_[index >> group_bits] + starts_[index];
  }
  void grow(std::size_t wanted);
  void swap(RowStore& other) noexcept;

  char* data_ = nullptr;  // mapped: growing moves pages instead of copying, and untouched pages cost nothing
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::uint32_t count_ = 0;
  std::vector<std::uint32_t> starts_;
  std::vector<std::size_t> bases_;
};

}  // namespace sluice::api::resident
