#pragma once

#include <cstddef>

namespace sluice::core {

// A thread's memory for small, short-lived objects of requests: coroutine frames, cursors, body sources. It has size
// classes with free lists. A block returns to the list it came from, so a warm request never calls malloc. Larger sizes
// use malloc directly; sanitizer builds use it for all sizes, to detect use after free. A block must be freed on the
// thread that allocated it, with the size it was requested with.
inline constexpr std::size_t slab_max_bytes = 8192;
inline constexpr std::size_t slab_granule = 64;  // the block sizes of the classes are multiples of this

[[nodiscard]] void* slab_allocate(std::size_t bytes);
void slab_free(void* block, std::size_t bytes) noexcept;
// Returns unused memory of the size class of `bytes` on this thread to malloc: the 64 KiB chunks whose blocks are all
// free. Returns the number of bytes freed. Takes about 0.1 us for each free block of the class.
std::size_t slab_trim(std::size_t bytes) noexcept;

// Base for classes whose objects live in the slab, even if they are deleted through a virtual destructor.
struct SlabAllocated {
  static void* operator new(std::size_t bytes) { return slab_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { slab_free(block, bytes); }
};

}  // namespace sluice::core
