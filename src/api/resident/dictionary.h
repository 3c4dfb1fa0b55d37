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

// The distinct keys of a column, numbered in the order of their first appearance and found by hash. A numeric key takes
// 8 bytes, and a text its length and 4 bytes. The hash table takes another 5 bytes per key after trim().
class Dictionary {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  explicit Dictionary(bool fixed) : fixed_(fixed) {}

  // Returns the key's number. If size() has grown, the key is new. Returns `none` if all texts together exceed 4 GiB.
  [[nodiscard]] std::uint32_t intern(const Key& key);
  [[nodiscard]] std::uint32_t find(const Key& key) const;
  // Adds all keys to an empty dictionary. They must be distinct, and get the numbers 0, 1, 2 and so on. The dictionary
  // is trimmed afterwards. Returns false if all texts together exceed 4 GiB.
  [[nodiscard]] bool fill(std::span<const Key> keys);
  // Frees memory that was reserved for growth. No intern() may follow.
  void trim();

  [[nodiscard]] std::uint32_t size() const {
    return fixed_ ? static_cast<std::uint32_t>(numbers_.size()) : static_cast<std::uint32_t>(ends_.size());
  }
  // Precondition: id < size().
  [[nodiscard]] Key at(std::uint32_t id) const;
  [[nodiscard]] bool less(const Key& a, const Key& b) const { return fixed_ ? a.number < b.number : a.bytes < b.bytes; }
  [[nodiscard]] std::size_t memory() const;
  // The used memory, without what is reserved for growth.
  [[nodiscard]] std::size_t used() const {
    return numbers_.size() * sizeof(std::uint64_t) + bytes_.size() + ends_.size() * sizeof(std::uint32_t) +
           growing_.size() * sizeof(Tagged) + slots_.size() * sizeof(std::uint32_t);
  }

 private:
  // A slot while keys are added: the lower half of the key's hash and the key's number. The hash makes it possible to
  // skip other keys without comparing them.
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
  std::vector<std::uint32_t> ends_;   // the end of each key in bytes_
  std::vector<Tagged> growing_;       // until trim(): linear probing; also empty while numeric keys come in order
  std::vector<std::uint32_t> slots_;  // after trim(): linear probing; `none` marks an empty slot
};

}  // namespace sluice::api::resident
