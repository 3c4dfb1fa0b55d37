#include "http/fields.h"

#include "base/ascii.h"

namespace sluice::http {

bool same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && to_lower(a[i]) != to_lower(b[i])) return false;
  }
  return true;
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
