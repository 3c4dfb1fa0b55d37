#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

// Counts nanoseconds in buckets of at most 1/64 of their value.
class Histogram {
 public:
  void add(std::uint64_t value) {
    ++counts_[index(value)];
    ++total_;
    most_ = std::max(most_, value);
  }
  [[nodiscard]] double percentile(double percent) const {
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(total_) * percent / 100);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > wanted) return static_cast<double>(least(i));
    }
    return static_cast<double>(most_);
  }
  [[nodiscard]] std::uint64_t most() const { return most_; }

 private:
  static constexpr unsigned bits = 6;
  static std::size_t index(std::uint64_t value) {
    if (value < (1U << bits)) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - bits - 1;
    return (static_cast<std::size_t>(shift + 1) << bits) + ((value >> shift) & ((1U << bits) - 1));
  }
  static std::uint64_t least(std::size_t index) {
    if (index < (1U << bits)) return index;
    const std::size_t shift = (index >> bits) - 1;
    return ((std::uint64_t{1} << bits) + (index & ((1U << bits) - 1))) << shift;
  }
  std::array<std::uint64_t, 64 << bits> counts_{};
  std::uint64_t total_ = 0;
  std::uint64_t most_ = 0;
};
