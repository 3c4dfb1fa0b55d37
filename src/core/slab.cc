#include "core/slab.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "core/slab_lists.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLUICE_SLAB_OFF 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLUICE_SLAB_OFF 1
#endif
#endif

namespace sluice::core {

namespace {

constexpr std::size_t granule = slab_granule;
constexpr std::size_t chunk_stride = 64 * 1024;
constexpr std::size_t chunk_bytes = chunk_stride - granule;  // leaves room for malloc's own data between two chunks

constexpr std::size_t blocks_of_chunk(std::size_t index) { return (chunk_bytes - granule) / (index * granule); }

}  // namespace

SlabLists::Chunk& SlabLists::chunk_of(const FreeBlock* block) {
  return *reinterpret_cast<Chunk*>(reinterpret_cast<std::uintptr_t>(block) & ~(chunk_stride - 1));
}

void* SlabLists::carve(std::size_t index) {
  Chunk*& newest = chunks_[index];
  if (newest == nullptr || cut_[index] == blocks_of_chunk(index)) {
    void* memory = nullptr;
    if (source_(&memory, chunk_stride, chunk_bytes) != 0) throw std::bad_alloc();
    newest = ::new (memory) Chunk{newest, 0};
    cut_[index] = 0;
  }
  return reinterpret_cast<char*>(newest) + granule + cut_[index]++ * index * granule;
}

void* SlabLists::allocate(std::size_t bytes) {
  const std::size_t index = (bytes + granule - 1) / granule;
  FreeBlock* block = free_[index];
  if (block == nullptr) [[unlikely]]
    return carve(index == 0 ? 1 : index);
  free_[index] = block->next;
  return block;
}

void SlabLists::free(void* block, std::size_t bytes) noexcept {
  const std::size_t index = (bytes + granule - 1) / granule;
  auto* freed = static_cast<FreeBlock*>(block);
  freed->next = free_[index];
  free_[index] = freed;
}

std::size_t SlabLists::trim(std::size_t bytes) noexcept {
  const std::size_t index = (bytes + granule - 1) / granule;
  const std::size_t all = blocks_of_chunk(index);
  for (const FreeBlock* block = free_[index]; block != nullptr; block = block->next) {
    ++chunk_of(block).free_blocks;
  }
  for (FreeBlock** place = &free_[index]; *place != nullptr;) {
    if (chunk_of(*place).free_blocks == all) {
      *place = (*place)->next;
    } else {
      place = &(*place)->next;
    }
  }
  std::size_t freed = 0;
  for (Chunk** place = &chunks_[index]; *place != nullptr;) {
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

#ifdef SLUICE_SLAB_OFF

void* slab_allocate(std::size_t bytes) { return ::operator new(bytes); }
void slab_free(void* block, std::size_t) noexcept { ::operator delete(block); }
std::size_t slab_trim(std::size_t) noexcept { return 0; }

#else

namespace {
constinit thread_local SlabLists lists;
}  // namespace

void* slab_allocate(std::size_t bytes) {
  if (bytes > slab_max_bytes) [[unlikely]]
    return ::operator new(bytes);
  return lists.allocate(bytes);
}

void slab_free(void* block, std::size_t bytes) noexcept {
  if (bytes > slab_max_bytes) [[unlikely]]
    return ::operator delete(block);
  lists.free(block, bytes);
}

std::size_t slab_trim(std::size_t bytes) noexcept { return lists.trim(bytes); }

#endif

}  // namespace sluice::core
