#include "api/resident/dictionary.h"

#include <algorithm>
#include <bit>

#include <xxhash.h>

namespace sluice::api::resident {

std::uint64_t Dictionary::hash(const Key& key) const {
  return fixed_ ? XXH3_64bits(&key.number, sizeof key.number) : XXH3_64bits(key.bytes.data(), key.bytes.size());
}

Key Dictionary::at(std::uint32_t id) const {
  if (fixed_) return {.number = numbers_[id], .bytes = {}};
  const std::uint32_t begin = id == 0 ? 0 : ends_[id - 1];
  return {.number = 0, .bytes = {bytes_.data() + begin, ends_[id] - begin}};
}

bool Dictionary::equal(std::uint32_t id, const Key& key) const {
  return fixed_ ? numbers_[id] == key.number : at(id).bytes == key.bytes;
}

namespace {

// The upper half of the product maps the hash evenly to the slots, for any number of slots.
std::size_t home_of(std::uint64_t hash, std::size_t slots) {
  return static_cast<std::size_t>(static_cast<unsigned __int128>(hash) * slots >> 64);
}

std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }

// The first empty slot from `slot` on.
template <class Slots, class IsEmpty>
std::size_t next_empty(const Slots& slots, std::size_t slot, IsEmpty is_empty) {
  while (!is_empty(slots[slot])) slot = slot + 1 == slots.size() ? 0 : slot + 1;
  return slot;
}

}  // namespace

std::uint32_t Dictionary::find(const Key& key) const {
  const std::uint64_t hashed = hash(key);
  if (!slots_.empty()) {
    for (std::size_t slot = home_of(hashed, slots_.size()); slots_[slot] != none;) {
      if (equal(slots_[slot], key)) return slots_[slot];
      slot = slot + 1 == slots_.size() ? 0 : slot + 1;
    }
    return none;
  }
  if (growing_.empty()) {
    const auto found = std::ranges::lower_bound(numbers_, key.number);
    return found != numbers_.end() && *found == key.number ? static_cast<std::uint32_t>(found - numbers_.begin())
                                                           : none;
  }
  for (std::size_t slot = home_of(hashed, growing_.size()); growing_[slot].id != none;) {
    if (growing_[slot].tag == tag_of(hashed) && equal(growing_[slot].id, key)) return growing_[slot].id;
    slot = slot + 1 == growing_.size() ? 0 : slot + 1;
  }
  return none;
}

std::uint32_t Dictionary::intern(const Key& key) {
  // Ascending numbers, such as serial keys and timestamps, are always new, so no lookup is needed.
  if (fixed_ && growing_.empty() && (numbers_.empty() || key.number > numbers_.back())) {
    numbers_.push_back(key.number);
    return size() - 1;
  }
  if (std::size_t{size()} * 3 >= growing_.size() * 2) grow();
  const std::uint64_t hashed = hash(key);
  std::size_t slot = home_of(hashed, growing_.size());
  for (; growing_[slot].id != none; slot = slot + 1 == growing_.size() ? 0 : slot + 1) {
    if (growing_[slot].tag == tag_of(hashed) && equal(growing_[slot].id, key)) return growing_[slot].id;
  }
  const std::uint32_t id = size();
  if (fixed_) {
    numbers_.push_back(key.number);
  } else {
    if (bytes_.size() + key.bytes.size() >= none) return none;
    bytes_.append(key.bytes);
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  growing_[slot] = {.tag = tag_of(hashed), .id = id};
  return id;
}

void Dictionary::grow() {
  const std::size_t slots = std::max(std::bit_ceil(std::size_t{size()} * 2 + 32), growing_.size() * 2);
  growing_ = std::vector<Tagged>();  // assigning an empty list would not free the memory
  growing_.resize(slots);
  for (std::uint32_t id = 0; id < size(); ++id) {
    const std::uint64_t hashed = hash(at(id));
    const std::size_t slot =
        next_empty(growing_, home_of(hashed, slots), [](const Tagged& one) { return one.id == none; });
    growing_[slot] = {.tag = tag_of(hashed), .id = id};
  }
}

bool Dictionary::fill(std::span<const Key> keys) {
  if (fixed_) {
    numbers_.reserve(keys.size());
    for (const Key& key : keys) numbers_.push_back(key.number);
  } else {
    std::size_t bytes = 0;
    for (const Key& key : keys) bytes += key.bytes.size();
    if (bytes >= none) return false;
    bytes_.reserve(bytes);
    ends_.reserve(keys.size());
    for (const Key& key : keys) {
      bytes_.append(key.bytes);
      ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    }
  }
  index();
  return true;
}

void Dictionary::trim() {
  growing_ = std::vector<Tagged>();
  numbers_.shrink_to_fit();
  bytes_.shrink_to_fit();
  ends_.shrink_to_fit();
  index();
}

void Dictionary::index() {
  slots_.assign(std::size_t{size()} * 5 / 4 + 1, none);
  for (std::uint32_t id = 0; id < size(); ++id) {
    const std::size_t home = home_of(hash(at(id)), slots_.size());
    slots_[next_empty(slots_, home, [](std::uint32_t one) { return one == none; })] = id;
  }
}

std::size_t Dictionary::memory() const {
  return numbers_.capacity() * sizeof(std::uint64_t) + bytes_.capacity() + ends_.capacity() * sizeof(std::uint32_t) +
         growing_.capacity() * sizeof(Tagged) + slots_.capacity() * sizeof(std::uint32_t);
}

}  // namespace sluice::api::resident
