#include "core/slab.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "core/slab_lists.h"

namespace sluice::core {
namespace {

TEST(Slab, BlocksOfAllSizesDoNotOverlap) {
  struct Block {
    unsigned char* bytes;
    std::size_t size;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  for (std::size_t size = 1; size <= slab_max_bytes + 100; size += 37) {
    const auto mark = static_cast<unsigned char>(size * 7);
    auto* bytes = static_cast<unsigned char*>(slab_allocate(size));
    std::memset(bytes, mark, size);
    blocks.push_back({bytes, size, mark});
  }
  for (const Block& block : blocks) {
    for (std::size_t i = 0; i < block.size; ++i) ASSERT_EQ(block.bytes[i], block.mark);
    slab_free(block.bytes, block.size);
  }
}

TEST(SlabLists, AWarmSizeNeedsNoNewMemory) {
  static SlabLists lists;  // static, because a SlabLists never frees its last chunks
  std::set<void*> first;
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(lists.allocate(300));
  for (void* block : blocks) {
    first.insert(block);
    lists.free(block, 300);
  }
  for (int i = 0; i < 100; ++i) {
    void* block = lists.allocate(310);  // the same class
    EXPECT_TRUE(first.contains(block));
  }
}

TEST(SlabLists, GivesBackWhatIsFreeAsAWhole) {
  static SlabLists lists;  // static, because a SlabLists never frees its last chunks
  constexpr std::size_t size = 3000;
  std::vector<void*> blocks;
  for (int i = 0; i < 2000; ++i) blocks.push_back(lists.allocate(size));
  EXPECT_EQ(lists.trim(size), 0u);
  // Every hundredth block stays allocated, so the chunks of these blocks cannot be freed.
  std::set<void*> kept;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 100 == 0) {
      std::memset(blocks[i], static_cast<int>(i / 100), size);
      kept.insert(blocks[i]);
    } else {
      lists.free(blocks[i], size);
    }
  }
  const std::size_t freed = lists.trim(size);
  EXPECT_GT(freed, 2000 * size / 2);
  EXPECT_LT(freed, 1980 * size);
  EXPECT_EQ(lists.trim(size), 0u);
  // The remaining blocks are as usable as before, and so are new ones.
  std::set<void*> again;
  for (int i = 0; i < 2000; ++i) again.insert(lists.allocate(size));
  EXPECT_EQ(again.size(), 2000u);
  for (void* block : again) {
    EXPECT_FALSE(kept.contains(block));
    std::memset(block, 0xFF, size);
  }
  for (std::size_t i = 0; i < blocks.size(); i += 100) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i]);
    for (std::size_t k = 0; k < size; ++k) ASSERT_EQ(bytes[k], i / 100);
    lists.free(blocks[i], size);
  }
  for (void* block : again) lists.free(block, size);
  EXPECT_GT(lists.trim(size), 1980 * size);
}

TEST(SlabLists, RunningOutOfMemoryGivesNoBlockTwice) {
  static int chunks_left;
  chunks_left = 3;
  static SlabLists lists([](void** memory, std::size_t alignment, std::size_t bytes) {
    return chunks_left-- > 0 ? ::posix_memalign(memory, alignment, bytes) : ENOMEM;
  });
  std::set<void*> blocks;
  const auto take_all = [&] {
    for (;;) EXPECT_TRUE(blocks.insert(lists.allocate(slab_max_bytes)).second);
  };
  EXPECT_THROW(take_all(), std::bad_alloc);
  EXPECT_EQ(blocks.size(), 3u * 7);
  for (const std::size_t size : {slab_max_bytes, slab_granule}) {
    EXPECT_THROW((void)lists.allocate(size), std::bad_alloc);
  }
  // The class can allocate again, and another class gets its own chunk.
  chunks_left = 2;
  for (const std::size_t size : {slab_max_bytes, slab_granule}) {
    auto* const block = static_cast<char*>(lists.allocate(size));
    for (void* const other : blocks) {
      const auto* const begin = static_cast<const char*>(other);
      EXPECT_TRUE(block + size <= begin || block >= begin + slab_max_bytes);
    }
    if (size == slab_max_bytes) blocks.insert(block);
    if (size != slab_max_bytes) lists.free(block, size);
  }
  for (void* const block : blocks) lists.free(block, slab_max_bytes);
  EXPECT_GE(lists.trim(slab_max_bytes), 3u * 7 * slab_max_bytes);
}

}  // namespace
}  // namespace sluice::core
