#include "core/slab.h"

#include <cstring>
#include <set>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sluice::core
