#include "http/fields.h"

#include <cstdint>
#include <cstring>

#include "base/ascii.h"

namespace sluice::http {

namespace {

// Whether eight characters are the same but for the case of letters.
bool same_eight(const char* a, const char* b) {
  constexpr std::uint64_t each = 0x0101010101010101;
  std::uint64_t x = 0;
  std::uint64_t y = 0;
  std::memcpy(&x, a, 8);
  std::memcpy(&y, b, 8);
  const std::uint64_t different = x ^ y;
  if (different == 0) return true;
  if ((different & ~(each * 0x20)) != 0) return false;
  // The highest bit of each byte says whether the character is a letter. No addition carries into the next byte.
  const std::uint64_t lower = (x | each * 0x20) & each * 0x7F;
  const std::uint64_t from_a = lower + each * (0x80 - 'a');
  const std::uint64_t behind_z = lower + each * (0x7F - 'z');
  const std::uint64_t letters = from_a & ~behind_z & ~x;
  return ((different << 2) & ~letters & each * 0x80) == 0;
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  const std::size_t size = a.size();
  if (size < 8) {
    for (std::size_t i = 0; i < size; ++i) {
      if (a[i] != b[i] && to_lower(a[i]) != to_lower(b[i])) return false;
    }
    return true;
  }
  for (std::size_t i = 0; i + 8 < size; i += 8) {
    if (!same_eight(a.data() + i, b.data() + i)) return false;
  }
  return same_eight(a.data() + size - 8, b.data() + size - 8);
}

void FieldList::add_further(std::string_view name, std::string_view value) {
  SLUICE_ASSERT(size_ < max_size);
  if (size_ == inline_capacity) grown_.assign(items_.begin(), items_.end());
  grown_.push_back({name, value});
  ++size_;
}

void FieldList::remove(std::size_t index) {
  SLUICE_ASSERT(index < size_);
  Field* const items = data();
  std::copy(items + index + 1, items + size_, items + index);
  --size_;
  if (!grown_.empty()) {
    grown_.pop_back();
    if (size_ == inline_capacity) {
      std::ranges::copy(grown_, items_.begin());
      grown_.clear();
    }
  }
  if (index >= 32) return;
  const std::uint32_t below = bit(index) - 1;
  trusted_ = (trusted_ & below) | (trusted_ >> 1 & ~below);
}

std::string_view FieldList::get(std::string_view name) const {
  for (const Field& field : items()) {
    if (same_name(field.name, name)) return field.value;
  }
  return {};
}

}  // namespace sluice::http
