#include "api/resident/dictionary.h"

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

std::size_t Dictionary::first_slot_of(const Key& key) const {
  // The upper half of a product maps the hash to the slots evenly, however many there are.
  return static_cast<std::size_t>(static_cast<unsigned __int128>(hash(key)) * slots_.size() >> 64);
}

std::size_t Dictionary::slot_of(const Key& key) const {
  const std::size_t count = slots_.size();
  std::size_t slot = first_slot_of(key);
  while (slots_[slot] != none && !equal(slots_[slot], key)) slot = slot + 1 == count ? 0 : slot + 1;
  return slot;
}

std::uint32_t Dictionary::find(const Key& key) const { return slots_.empty() ? none : slots_[slot_of(key)]; }

std::uint32_t Dictionary::intern(const Key& key) {
  if (std::size_t{size()} * 4 >= slots_.size() * 3) resize(slots_.empty() ? 64 : slots_.size() * 2);
  std::uint32_t& slot = slots_[slot_of(key)];
  if (slot != none) return slot;
  const std::uint32_t id = size();
  if (fixed_) {
    numbers_.push_back(key.number);
  } else {
    if (bytes_.size() + key.bytes.size() >= none) return none;
    bytes_.append(key.bytes);
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  slot = id;
  return id;
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
  resize(keys.size() * 5 / 4 + 1);
  return true;
}

void Dictionary::resize(std::size_t slots) {
  slots_ = std::vector<std::uint32_t>();  // first: the old and the new ones are never there together
  slots_.assign(slots, none);
  for (std::uint32_t id = 0; id < size(); ++id) {
    // No two are the same, so there is nothing to compare.
    std::size_t slot = first_slot_of(at(id));
    while (slots_[slot] != none) slot = slot + 1 == slots ? 0 : slot + 1;
    slots_[slot] = id;
  }
}

void Dictionary::trim() {
  numbers_.shrink_to_fit();
  bytes_.shrink_to_fit();
  ends_.shrink_to_fit();
  resize(std::size_t{size()} * 5 / 4 + 1);
}

std::size_t Dictionary::memory() const {
  return numbers_.capacity() * sizeof(std::uint64_t) + bytes_.capacity() + ends_.capacity() * sizeof(std::uint32_t) +
         slots_.capacity() * sizeof(std::uint32_t);
}

}  // namespace sluice::api::resident
