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

// In a process of its own, whose address space cannot grow.
TEST(SlabDeathTest, RunningOutOfMemoryGivesNoBlockTwice) {
  if (!slab_is_on()) return;
  const auto run_out = [] {
    const rlimit none{1, 1};
    ::setrlimit(RLIMIT_AS, &none);
    try {
      for (;;) (void)slab_allocate(slab_max_bytes);
    } catch (const std::bad_alloc&) {
    }
    // The rest of the last chunk was given to the class of its size; nothing smaller may be cut out of it.
    const auto* const rest = static_cast<const char*>(slab_allocate(slab_max_bytes - 64));
    try {
      for (;;) {
        const auto* const block = static_cast<const char*>(slab_allocate(1));
        if (block >= rest && block < rest + slab_max_bytes - 64) std::_Exit(1);
      }
    } catch (const std::bad_alloc&) {
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(run_out(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice::core
