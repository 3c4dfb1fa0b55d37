#include "core/slab.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

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

TEST(Slab, AWarmSizeNeedsNoNewMemory) {
  std::set<void*> first;
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(slab_allocate(300));
  for (void* block : blocks) {
    first.insert(block);
    slab_free(block, 300);
  }
  if (!slab_is_on()) return;  // under a sanitizer every block is malloc's
  for (int i = 0; i < 100; ++i) {
    void* block = slab_allocate(310);  // the same class
    EXPECT_TRUE(first.contains(block));
  }
}

TEST(Slab, GivesBackWhatIsFreeAsAWhole) {
  if (!slab_is_on()) return;
  constexpr std::size_t size = 3000;
  std::vector<void*> blocks;
  for (int i = 0; i < 2000; ++i) blocks.push_back(slab_allocate(size));
  EXPECT_EQ(slab_trim(size), 0u);
  // One in a hundred stays: the others' memory is not free as a whole everywhere.
  std::set<void*> kept;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 100 == 0) {
      std::memset(blocks[i], static_cast<int>(i / 100), size);
      kept.insert(blocks[i]);
    } else {
      slab_free(blocks[i], size);
    }
  }
  const std::size_t freed = slab_trim(size);
  EXPECT_GT(freed, 2000 * size / 2);
  EXPECT_LT(freed, 1980 * size);
  EXPECT_EQ(slab_trim(size), 0u);
  // What is left is as usable as before, and so is what is carved from now on.
  std::set<void*> again;
  for (int i = 0; i < 2000; ++i) again.insert(slab_allocate(size));
  EXPECT_EQ(again.size(), 2000u);
  for (void* block : again) {
    EXPECT_FALSE(kept.contains(block));
    std::memset(block, 0xFF, size);
  }
  for (std::size_t i = 0; i < blocks.size(); i += 100) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[i]);
    for (std::size_t k = 0; k < size; ++k) ASSERT_EQ(bytes[k], i / 100);
    slab_free(blocks[i], size);
  }
  for (void* block : again) slab_free(block, size);
  EXPECT_GT(slab_trim(size), 1980 * size);
}

// In a process of its own, whose address space cannot grow.
TEST(SlabDeathTest, RunningOutOfMemoryGivesNoBlockTwice) {
  if (!slab_is_on()) return;
  const auto run_out = [] {
    const rlimit none{1, 1};
    ::setrlimit(RLIMIT_AS, &none);
    const char* last = nullptr;
    try {
      for (;;) last = static_cast<const char*>(slab_allocate(slab_max_bytes));
    } catch (const std::bad_alloc&) {
    }
    try {
      (void)slab_allocate(slab_max_bytes);
      std::_Exit(1);
    } catch (const std::bad_alloc&) {
    }
    try {
      for (;;) {
        const auto* const block = static_cast<const char*>(slab_allocate(1));
        if (block >= last && block < last + slab_max_bytes) std::_Exit(2);
      }
    } catch (const std::bad_alloc&) {
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(run_out(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice::core
