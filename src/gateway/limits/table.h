#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include "base/assert.h"
#include "base/free.h"
#include "gateway/limits/key.h"

namespace sluice::gateway::limits {

// A hash table of at most `capacity` entries. Its memory is allocated once; the system provides pages when they are
// first used. Adding and erasing may move entries, so a pointer is valid until the next add() or erase().
//
// Open addressing with linear probing: no place is empty between the home of an entry's key and the entry's place.
template <class Entry>
class Table {
  static_assert(std::is_trivially_copyable_v<Entry>);

 public:
  explicit Table(std::uint32_t capacity)
      : capacity_(std::max<std::uint32_t>(capacity, 1)),
        mask_(std::bit_ceil(std::size_t{capacity_} + capacity_ / 3 + 1) - 1),
        shift_(64 - static_cast<unsigned>(std::countr_one(mask_))),
        places_(static_cast<Entry*>(std::calloc(mask_ + 1, sizeof(Entry)))) {
    if (!places_) throw std::bad_alloc();
  }

  [[nodiscard]] std::uint32_t size() const { return size_; }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

  // Null if there is no such entry.
  [[nodiscard]] Entry* find(const Key& key) {
    for (std::size_t at = home(key);; at = next(at)) {
      Entry& entry = places_.get()[at];
      if (entry.key == key) return &entry;
      if (is_empty(entry)) return nullptr;
    }
  }

  // Adds an entry with this key and zeros. Precondition: the key is not in the table. Looks at a few entries, or at
  // more if the table is full, and erases those for which `may_go` is true. Returns null if the table is still full.
  template <class MayGo>
  [[nodiscard]] Entry* add(const Key& key, const MayGo& may_go) {
    sweep(size_ < capacity_ ? few : many, may_go);
    if (size_ == capacity_) return nullptr;
    std::size_t at = home(key);
    while (!is_empty(places_.get()[at])) at = next(at);
    Entry& entry = places_.get()[at];
    entry = Entry{};
    entry.key = key;
    ++size_;
    return &entry;
  }

  // Erases one of the next entries, about 256: that with the smallest `rank(entry)`. Those with INT64_MAX stay. Returns
  // false if all of them do.
  template <class Rank>
  [[nodiscard]] bool evict(const Rank& rank) {
    Entry* least = nullptr;
    std::int64_t least_rank = INT64_MAX;
    for (std::size_t places = many; places != 0; --places, hand_ = next(hand_)) {
      Entry& entry = places_.get()[hand_];
      if (is_empty(entry) || rank(entry) >= least_rank) continue;
      least = &entry;
      least_rank = rank(entry);
    }
    if (least != nullptr) erase(*least);
    return least != nullptr;
  }

  void erase(Entry& entry) {
    std::size_t hole = static_cast<std::size_t>(&entry - places_.get());
    for (std::size_t at = next(hole); !is_empty(places_.get()[at]); at = next(at)) {
      // The entry may move to the hole unless its home lies after the hole.
      if (((at - home(places_.get()[at].key)) & mask_) < ((at - hole) & mask_)) continue;
      places_.get()[hole] = places_.get()[at];
      hole = at;
    }
    places_.get()[hole] = Entry{};
    --size_;
  }

  template <class Visit>
  void each(const Visit& visit) {
    for (std::size_t at = 0; at <= mask_; ++at) {
      if (!is_empty(places_.get()[at])) visit(places_.get()[at]);
    }
  }

  void validate() {
    std::uint32_t found = 0;
    each([&](Entry& entry) {
      ++found;
      SLUICE_ASSERT(find(entry.key) == &entry);
    });
    SLUICE_ASSERT(found == size_ && size_ <= capacity_);
  }

 private:
  static constexpr std::size_t few = 8;  // places to look at
  static constexpr std::size_t many = 256;

  [[nodiscard]] static bool is_empty(const Entry& entry) { return entry.key.low == 0; }
  [[nodiscard]] std::size_t home(const Key& key) const { return key.low >> shift_; }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & mask_; }

  template <class MayGo>
  void sweep(std::size_t places, const MayGo& may_go) {
    for (; places != 0; --places) {
      Entry& entry = places_.get()[hand_];
      while (!is_empty(entry) && may_go(entry)) erase(entry);  // erase() may have moved another entry here
      hand_ = next(hand_);
    }
  }

  const std::uint32_t capacity_;
  const std::size_t mask_;
  const unsigned shift_;
  const std::unique_ptr<Entry, Free<std::free>> places_;
  std::uint32_t size_ = 0;
  std::size_t hand_ = 0;  // where the next sweep begins
};

}  // namespace sluice::gateway::limits
