#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/resident/value.h"

namespace sluice::api::resident {

// The distinct keys of a column, numbered in the order in which they first came, and found by hash. Numbers take 8
// bytes a key, texts their length and 4 bytes; the table of the hash another 5, once it has been trimmed.
class Dictionary {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  explicit Dictionary(bool fixed) : fixed_(fixed) {}

  // The key's number, which is new where size() has grown. `none`: the texts are longer than 4 GiB together.
  [[nodiscard]] std::uint32_t intern(const Key& key);
  [[nodiscard]] std::uint32_t find(const Key& key) const;
  // All keys at once, of an empty dictionary, and no two the same; they get the numbers 0, 1, 2. It is trimmed
  // afterwards. False: as above.
  [[nodiscard]] bool fill(std::span<const Key> keys);
  // Gives back what was room to grow. No intern() follows.
  void trim();

  [[nodiscard]] std::uint32_t size() const {
    return fixed_ ? static_cast<std::uint32_t>(numbers_.size()) : static_cast<std::uint32_t>(ends_.size());
  }
  // Precondition: id < size().
  [[nodiscard]] Key at(std::uint32_t id) const;
  [[nodiscard]] bool less(const Key& a, const Key& b) const { return fixed_ ? a.number < b.number : a.bytes < b.bytes; }
  [[nodiscard]] std::size_t memory() const;
  // Likewise, without what is room to grow.
  [[nodiscard]] std::size_t used() const {
    return numbers_.size() * sizeof(std::uint64_t) + bytes_.size() + ends_.size() * sizeof(std::uint32_t) +
           growing_.size() * sizeof(Tagged) + slots_.size() * sizeof(std::uint32_t);
  }

 private:
  // A slot while keys come: the lower half of the key's hash, so that other keys are passed by without a look at them,
  // and its number.
  struct Tagged {
    std::uint32_t tag = 0;
    std::uint32_t id = none;
  };

  [[nodiscard]] std::uint64_t hash(const Key& key) const;
  [[nodiscard]] bool equal(std::uint32_t id, const Key& key) const;
  void grow();
  void index();

  const bool fixed_;
  std::vector<std::uint64_t> numbers_;
  std::string bytes_;
  std::vector<std::uint32_t> ends_;   // of each key in bytes_
  std::vector<Tagged> growing_;       // until trim(): linear probing; empty as well while numbers come in order
  std::vector<std::uint32_t> slots_;  // from then on, likewise; `none`: empty
};

}  // namespace sluice::api::resident
