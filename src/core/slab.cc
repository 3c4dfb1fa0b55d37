#include "core/slab.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

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

#else

bool slab_is_on() noexcept { return true; }

namespace {

constexpr std::size_t granule = 64;
constexpr std::size_t classes = slab_max_bytes / granule;
constexpr std::size_t chunk_bytes = 64 * 1024;

struct FreeBlock {
  FreeBlock* next;
};

// The lists of one thread. Trivially destructible, so that a late free at thread exit still finds them.
struct Lists {
  std::array<FreeBlock*, classes + 1> free;
  char* fresh;
  char* fresh_end;
};
constinit thread_local Lists lists{};

// Chunks live as long as the program: a thread's blocks may outlast it, and threads are as many as cores.
void* new_chunk() {
  struct Chunk {
    Chunk* next;
  };
  static std::mutex mutex;
  static Chunk* all = nullptr;  // keeps every chunk reachable, for leak checkers
  void* memory = std::aligned_alloc(granule, chunk_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  const std::lock_guard lock(mutex);
  auto* chunk = static_cast<Chunk*>(memory);
  chunk->next = all;
  all = chunk;
  return memory;
}

void* carve(std::size_t index) {
  const std::size_t bytes = index * granule;
  if (static_cast<std::size_t>(lists.fresh_end - lists.fresh) < bytes) {
    // What is left of the old chunk serves the class of its size.
    char* const rest = lists.fresh;
    const std::size_t left = static_cast<std::size_t>(lists.fresh_end - rest) / granule;
    lists.fresh = lists.fresh_end;  // before new_chunk() may throw: a block belongs to one list alone
    if (left != 0) slab_free(rest, left * granule);
    char* chunk = static_cast<char*>(new_chunk());
    lists.fresh = chunk + granule;  // the first granule is the chunk's own link
    lists.fresh_end = chunk + chunk_bytes;
  }
  char* block = lists.fresh;
  lists.fresh += bytes;
  return block;
}

}  // namespace

void* slab_allocate(std::size_t bytes) {
  if (bytes > slab_max_bytes) [[unlikely]] return ::operator new(bytes);
  const std::size_t index = (bytes + granule - 1) / granule;
  FreeBlock* block = lists.free[index];
  if (block == nullptr) [[unlikely]] return carve(index == 0 ? 1 : index);
  lists.free[index] = block->next;
  return block;
}

void slab_free(void* block, std::size_t bytes) noexcept {
  if (bytes > slab_max_bytes) [[unlikely]] return ::operator delete(block);
  const std::size_t index = (bytes + granule - 1) / granule;
  auto* freed = static_cast<FreeBlock*>(block);
  freed->next = lists.free[index];
  lists.free[index] = freed;
}

#endif

}  // namespace sluice::core
