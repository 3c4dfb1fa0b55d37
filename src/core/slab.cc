#include "core/slab.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLUICE_SLAB_OFF 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLUICE_SLAB_OFF 1
#endif
#endif

namespace sluice::core {

#ifdef SLUICE_SLAB_OFF

bool slab_is_on() noexcept { return false; }
void* slab_allocate(std::size_t bytes) { return ::operator new(bytes); }
void slab_free(void* block, std::size_t) noexcept { ::operator delete(block); }
std::size_t slab_trim(std::size_t) noexcept { return 0; }

#else

bool slab_is_on() noexcept { return true; }

namespace {

constexpr std::size_t granule = slab_granule;
constexpr std::size_t classes = slab_max_bytes / granule;
constexpr std::size_t chunk_stride = 64 * 1024;
constexpr std::size_t chunk_bytes = chunk_stride - granule;  // leaves malloc room for its own words between two of them

struct FreeBlock {
  FreeBlock* next;
};

// Memory for blocks of one class, the first granule apart.
struct Chunk {
  Chunk* next;
  std::size_t free_blocks;  // by slab_trim()
};

// The lists of one thread, by class. Trivially destructible, so that a late free at thread exit still finds them: a
// thread's blocks may outlast it, and so its chunks are not freed with it.
struct Lists {
  std::array<FreeBlock*, classes + 1> free;
  std::array<Chunk*, classes + 1> chunks;      // the newest first
  std::array<std::uint32_t, classes + 1> cut;  // blocks of the newest one that have been given out, ever
};
constinit thread_local Lists lists{};

constexpr std::size_t blocks_of_chunk(std::size_t index) { return (chunk_bytes - granule) / (index * granule); }

Chunk& chunk_of(const FreeBlock* block) {
  return *reinterpret_cast<Chunk*>(reinterpret_cast<std::uintptr_t>(block) & ~(chunk_stride - 1));
}

void* carve(std::size_t index) {
  Chunk*& newest = lists.chunks[index];
  if (newest == nullptr || lists.cut[index] == blocks_of_chunk(index)) {
    void* const memory = std::aligned_alloc(chunk_stride, chunk_bytes);
    if (memory == nullptr) throw std::bad_alloc();
    newest = ::new (memory) Chunk{newest, 0};
    lists.cut[index] = 0;
  }
  return reinterpret_cast<char*>(newest) + granule + lists.cut[index]++ * index * granule;
}

}  // namespace

void* slab_allocate(std::size_t bytes) {
  if (bytes > slab_max_bytes) [[unlikely]]
    return ::operator new(bytes);
  const std::size_t index = (bytes + granule - 1) / granule;
  FreeBlock* block = lists.free[index];
  if (block == nullptr) [[unlikely]]
    return carve(index == 0 ? 1 : index);
  lists.free[index] = block->next;
  return block;
}

void slab_free(void* block, std::size_t bytes) noexcept {
  if (bytes > slab_max_bytes) [[unlikely]]
    return ::operator delete(block);
  const std::size_t index = (bytes + granule - 1) / granule;
  auto* freed = static_cast<FreeBlock*>(block);
  freed->next = lists.free[index];
  lists.free[index] = freed;
}

std::size_t slab_trim(std::size_t bytes) noexcept {
  const std::size_t index = (bytes + granule - 1) / granule;
  const std::size_t all = blocks_of_chunk(index);
  for (const FreeBlock* block = lists.free[index]; block != nullptr; block = block->next) {
    ++chunk_of(block).free_blocks;
  }
  for (FreeBlock** place = &lists.free[index]; *place != nullptr;) {
    if (chunk_of(*place).free_blocks == all) {
      *place = (*place)->next;
    } else {
      place = &(*place)->next;
    }
  }
  std::size_t freed = 0;
  for (Chunk** place = &lists.chunks[index]; *place != nullptr;) {
    Chunk* const chunk = *place;
    if (std::exchange(chunk->free_blocks, 0) == all) {
      *place = chunk->next;
      std::free(chunk);
      freed += chunk_bytes;
    } else {
      place = &chunk->next;
    }
  }
  return freed;
}

#endif

}  // namespace sluice::core
