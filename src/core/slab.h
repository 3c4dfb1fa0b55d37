#pragma once

#include <cstddef>

namespace sluice::core {

// The memory of one thread for small objects that come and go with requests: coroutine frames, cursors, body sources.
// Size classes with free lists; a block returns to the list it came from, so a warm request never reaches malloc.
// Larger sizes pass through to malloc; in builds with a sanitizer all do, so that it sees a use after free. A block is
// freed on the thread that allocated it, by the size it was asked with.
inline constexpr std::size_t slab_max_bytes = 8192;
inline constexpr std::size_t slab_granule = 64;  // sizes of a class are up to a multiple of this

[[nodiscard]] void* slab_allocate(std::size_t bytes);
void slab_free(void* block, std::size_t bytes) noexcept;
// Gives the memory of the size class of `bytes` that this thread does not use back to malloc: of 64 KiB of blocks that
// are all free. How much that was. Takes some 0.1 us for each free block of the class.
std::size_t slab_trim(std::size_t bytes) noexcept;

// Base for classes whose objects live in the slab, also when they are deleted through a virtual destructor.
struct SlabAllocated {
  static void* operator new(std::size_t bytes) { return slab_allocate(bytes); }
  static void operator delete(void* block, std::size_t bytes) noexcept { slab_free(block, bytes); }
};

}  // namespace sluice::core
