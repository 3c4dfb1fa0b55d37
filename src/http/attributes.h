#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "base/assert.h"

namespace sluice::http {

// Values that filters have attached to an exchange, at most one of each type, such as an Identity. The module that a
// value concerns defines its type, so a new attribute changes no shared struct. A request has few of them, so the
// search is linear.
class Attributes {
 public:
  // The program has at most this many types of attributes.
  static constexpr std::size_t max_count = 8;
  static constexpr std::size_t max_size = 32;  // bytes of one value

  Attributes() = default;
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() { clear(); }

  // Replaces an earlier value of the same type. The result is valid until clear().
  template <class T>
  T& set(T value) {
    static_assert(sizeof(T) <= max_size && alignof(T) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>);
    if (T* const present = find<T>()) return *present = std::move(value);
    SLUICE_ASSERT(count_ < max_count);
    Entry& entry = entries_[count_++];
    entry.type = &type_of<T>;
    entry.destroy = std::is_trivially_destructible_v<T> ? nullptr : [](void* place) { static_cast<T*>(place)->~T(); };
    return *::new (entry.value) T(std::move(value));
  }
  // Null if absent.
  template <class T>
  [[nodiscard]] T* find() {
    for (std::size_t i = 0; i < count_; ++i) {
      if (entries_[i].type == &type_of<T>) return std::launder(reinterpret_cast<T*>(entries_[i].value));
    }
    return nullptr;
  }
  template <class T>
  [[nodiscard]] const T* find() const {
    return const_cast<Attributes*>(this)->find<T>();
  }
  // Destroys the values, the newest first.
  void clear() {
    while (count_ != 0) {
      Entry& entry = entries_[--count_];
      if (entry.destroy != nullptr) entry.destroy(entry.value);
    }
  }

 private:
  // The address identifies the type. Not const, because linkers may merge equal constants.
  template <class T>
  static inline char type_of = 0;

  struct Entry {
    const char* type;
    void (*destroy)(void*);
    alignas(std::max_align_t) std::byte value[max_size];
  };

  std::size_t count_ = 0;
  Entry entries_[max_count];  // the first count_ are in use
};

}  // namespace sluice::http
