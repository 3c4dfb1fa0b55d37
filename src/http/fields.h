#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace sluice::http {

// A header field as received or sent. Its name is case-insensitive.
struct Field {
  std::string_view name;
  std::string_view value;
};

[[nodiscard]] bool same_name(std::string_view a, std::string_view b);

// tchar: the characters of methods and field names (RFC 9110, 5.6.2).
inline constexpr std::array<bool, 256> token_chars = [] {
  std::array<bool, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[c] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[c] = table[c - 0x20] = true;
  for (char c : std::string_view("!#$%&'*+-.^_`|~")) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

inline bool is_token_char(char c) { return token_chars[static_cast<unsigned char>(c)]; }
inline bool is_token(std::string_view text) {
  for (char c : text) {
    if (!is_token_char(c)) return false;
  }
  return !text.empty();
}

// Fields of a response. Values are views into static text, into strings of the list, or into memory that lives as long
// as the body. The first `inline_capacity` fields need no allocation.
class FieldList {
 public:
  static constexpr std::size_t inline_capacity = 16;
  static constexpr std::size_t max_size = 512;  // code that forwards a peer's fields must limit their number

  FieldList() {}  // leaves the items uninitialized: only those below size_ are read
  FieldList(FieldList&& other) noexcept
      : size_(std::exchange(other.size_, 0)),
        trusted_(other.trusted_),
        owned_(std::move(other.owned_)),
        grown_(std::move(other.grown_)) {
    take_inline(other);
  }
  FieldList& operator=(FieldList&& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    trusted_ = other.trusted_;
    owned_ = std::move(other.owned_);
    grown_ = std::move(other.grown_);
    take_inline(other);
    return *this;
  }

  void add(std::string_view name, std::string_view value) {
    if (size_ >= inline_capacity) [[unlikely]]
      return add_further(name, value);
    items_[size_++] = {name, value};
  }
  // The name and the value are sent without validation. They must not contain bytes from a peer, and the field must not
  // be one that the connection writes (Content-Length and the like).
  void add_trusted(std::string_view name, std::string_view value) {
    if (size_ >= inline_capacity) [[unlikely]] {
      trusted_ |= bit(size_);
      return add_further(name, value);
    }
    trusted_ |= std::uint32_t{1} << size_;
    items_[size_++] = {name, value};
  }
  // Copies the value.
  void add_owned(std::string_view name, std::string value) { add(name, own(std::move(value))); }
  // Copies both.
  void add_copy(std::string_view name, std::string_view value) { add(own(std::string(name)), own(std::string(value))); }
  // Replaces the value of the item at this index.
  void set(std::size_t index, std::string_view value) {
    SLUICE_ASSERT(index < size_);
    data()[index].value = value;
    trusted_ &= ~bit(index);
  }
  void set_owned(std::size_t index, std::string value) { set(index, own(std::move(value))); }  // copies the value
  void remove(std::size_t index);
  [[nodiscard]] std::span<const Field> items() const { return {data(), size_}; }
  // One bit for each item. Items after the 32nd are never trusted.
  [[nodiscard]] std::uint32_t trusted() const { return trusted_; }
  [[nodiscard]] std::string_view get(std::string_view name) const;

 private:
  static std::uint32_t bit(std::size_t index) { return index < 32 ? std::uint32_t{1} << index : 0; }
  Field* data() { return size_ <= inline_capacity ? items_.data() : grown_.data(); }
  [[nodiscard]] const Field* data() const { return size_ <= inline_capacity ? items_.data() : grown_.data(); }
  // The view stays valid when the list is moved.
  std::string_view own(std::string value) { return owned_.emplace_front(std::move(value)); }
  void add_further(std::string_view name, std::string_view value);
  void take_inline(const FieldList& other) {
    for (std::size_t i = 0; i < std::min<std::size_t>(size_, inline_capacity); ++i) items_[i] = other.items_[i];
  }

  union {
    std::array<Field, inline_capacity> items_;
  };
  std::uint32_t size_ = 0;
  std::uint32_t trusted_ = 0;
  std::forward_list<std::string> owned_;
  std::vector<Field> grown_;  // all items, if there are more than inline_capacity
};

}  // namespace sluice::http
