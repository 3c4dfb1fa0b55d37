#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <stdlib.h>

#include "core/slab.h"

namespace sluice::core {

// One thread's blocks of up to slab_max_bytes, by class. Trivially destructible, so that a late free during thread exit
// can still use the lists. The memory is not freed at thread exit, because blocks may outlive the thread.
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
  // Memory for blocks of one class. The first granule is the header.
  struct Chunk {
    Chunk* next;
    std::size_t free_blocks;  // used by trim()
  };
  static Chunk& chunk_of(const FreeBlock* block);
  void* carve(std::size_t index);

  Source source_;
  std::array<FreeBlock*, classes + 1> free_{};
  std::array<Chunk*, classes + 1> chunks_{};      // newest first
  std::array<std::uint32_t, classes + 1> cut_{};  // blocks of the newest chunk that have ever been handed out
};

}  // namespace sluice::core
