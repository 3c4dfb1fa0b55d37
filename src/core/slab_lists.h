#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <stdlib.h>

#include "core/slab.h"

namespace sluice::core {

// One thread's blocks of up to slab_max_bytes, by class. Trivially destructible, so that a late free at thread exit
// still finds them: a thread's blocks may outlast it, and so its memory is not freed with it.
class SlabLists {
 public:
  using Source = int (*)(void** memory, std::size_t alignment, std::size_t bytes);
  constexpr explicit SlabLists(Source source = ::posix_memalign) : source_(source) {}

  [[nodiscard]] void* allocate(std::size_t bytes);
  void free(void* block, std::size_t bytes) noexcept;
  std::size_t trim(std::size_t bytes) noexcept;

 private:
  static constexpr std::size_t classes = slab_max_bytes / slab_granule;
  struct FreeBlock {
    FreeBlock* next;
  };
  // Memory for blocks of one class, the first granule apart.
  struct Chunk {
    Chunk* next;
    std::size_t free_blocks;  // by trim()
  };
  static Chunk& chunk_of(const FreeBlock* block);
  void* carve(std::size_t index);

  Source source_;
  std::array<FreeBlock*, classes + 1> free_{};
  std::array<Chunk*, classes + 1> chunks_{};      // the newest first
  std::array<std::uint32_t, classes + 1> cut_{};  // blocks of the newest one that have been given out, ever
};

}  // namespace sluice::core
