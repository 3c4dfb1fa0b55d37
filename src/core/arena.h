#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/assert.h"

namespace sluice::core {

// The memory of one request: allocating moves a pointer, and one reset() frees everything. Destructors are not run, so
// the arena may only hold objects that need none. reset() keeps the first chunk for the next request and frees the
// others, including the separate chunks of large allocations. The memory of an arena of default size is therefore
// bounded by what one request asks for.
class Arena {
 public:
  explicit Arena(std::size_t chunk_bytes = 4096) : chunk_bytes_(chunk_bytes) { SLUICE_ASSERT(chunk_bytes >= 256); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { release(); }

  // `alignment` is a power of two. Never returns null: throws std::bad_alloc as operator new does.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
    const std::size_t padding = (0 - reinterpret_cast<std::uintptr_t>(next_)) & (alignment - 1);
    if (bytes >= left_ || padding >= left_ - bytes) [[unlikely]]
      return allocate_slow(bytes, alignment);
    std::byte* const block = next_ + padding;
    next_ = block + bytes;
    left_ -= padding + bytes;
    return block;
  }

  template <class T, class... Args>
    requires std::is_trivially_destructible_v<T>
  [[nodiscard]] T* make(Args&&... args) {
    return ::new (allocate(sizeof(T), alignof(T))) T(std::forward<Args>(args)...);
  }
  template <class T>
    requires std::is_trivially_destructible_v<T>
  [[nodiscard]] std::span<T> make_array(std::size_t count) {
    if (count > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    T* const first = static_cast<T*>(allocate(count * sizeof(T), alignof(T)));
    std::uninitialized_value_construct_n(first, count);
    return {first, count};
  }
  [[nodiscard]] std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* const to = static_cast<char*>(allocate(text.size(), 1));
    std::memcpy(to, text.data(), text.size());
    return {to, text.size()};
  }

  // Frees all allocations.
  void reset() noexcept {
    while (others_ != nullptr) ::operator delete(std::exchange(others_, others_->next));
    held_bytes_ = 0;
    if (first_ != nullptr) use(*first_, chunk_bytes_);
  }
  // Like reset(), but frees the first chunk too, for owners that will not need it soon.
  void release() noexcept {
    reset();
    ::operator delete(std::exchange(first_, nullptr));
    next_ = nullptr;
    left_ = 0;
  }
  // The bytes held beyond the first chunk; for limits.
  [[nodiscard]] std::size_t extra_bytes() const { return held_bytes_; }

 private:
  struct alignas(std::max_align_t) Chunk {
    Chunk* next;
  };

  [[nodiscard]] void* allocate_slow(std::size_t bytes, std::size_t alignment);
  void use(Chunk& chunk, std::size_t bytes) {
    next_ = reinterpret_cast<std::byte*>(&chunk + 1);
    left_ = bytes;
  }
  [[nodiscard]] Chunk* add(std::size_t bytes) {
    auto* const chunk = static_cast<Chunk*>(::operator new(sizeof(Chunk) + bytes));
    chunk->next = nullptr;
    return chunk;
  }

  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
  const std::size_t chunk_bytes_;
  Chunk* first_ = nullptr;
  Chunk* others_ = nullptr;
  std::size_t held_bytes_ = 0;
};

inline void* Arena::allocate_slow(std::size_t bytes, std::size_t alignment) {
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  const std::size_t wanted = bytes + (alignment > alignof(Chunk) ? alignment : 0);
  // A large allocation gets its own chunk, so the rest of the current chunk is not wasted.
  if (wanted > chunk_bytes_ / 4) {
    Chunk* const own = add(wanted);
    own->next = std::exchange(others_, own);
    held_bytes_ += wanted;
    void* block = own + 1;
    std::size_t space = wanted;
    return std::align(alignment, bytes, block, space);
  }
  Chunk* const chunk = add(chunk_bytes_);
  if (first_ == nullptr) {
    first_ = chunk;
  } else {
    chunk->next = std::exchange(others_, chunk);
    held_bytes_ += chunk_bytes_;
  }
  use(*chunk, chunk_bytes_);
  return allocate(bytes, alignment);
}

}  // namespace sluice::core
