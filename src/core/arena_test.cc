#include "core/arena.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::core {
namespace {

TEST(Arena, blocks_are_aligned_and_do_not_overlap) {
  Arena arena(1024);
  struct Block {
    unsigned char* at;
    std::size_t bytes;
    unsigned char fill;
  };
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < 500; ++i) {
    const std::size_t bytes = (i * 37) % 600;  // some share a chunk, others get their own
    const std::size_t alignment = std::size_t{1} << (i % 8);
    auto* at = static_cast<unsigned char*>(arena.allocate(bytes, alignment));
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % alignment, 0U);
    const auto fill = static_cast<unsigned char>(i);
    std::memset(at, fill, bytes);
    blocks.push_back({at, bytes, fill});
  }
  for (const Block& block : blocks) {
    for (std::size_t i = 0; i < block.bytes; ++i) ASSERT_EQ(block.at[i], block.fill);
  }
}

TEST(Arena, reset_keeps_the_first_chunk_and_gives_the_rest_back) {
  Arena arena(1024);
  void* const first = arena.allocate(100);
  for (int i = 0; i < 100; ++i) EXPECT_NE(arena.allocate(100), nullptr);
  EXPECT_NE(arena.allocate(100'000), nullptr);
  EXPECT_GE(arena.extra_bytes(), 100'000U + 9 * 1024U);
  arena.reset();
  EXPECT_EQ(arena.extra_bytes(), 0U);
  EXPECT_EQ(arena.allocate(100), first);
}

TEST(Arena, an_oversized_block_leaves_the_current_chunk_in_use) {
  Arena arena(1024);
  auto* before = static_cast<std::byte*>(arena.allocate(16));
  EXPECT_NE(arena.allocate(5000), nullptr);
  EXPECT_EQ(static_cast<std::byte*>(arena.allocate(16)), before + 16);
}

TEST(Arena, the_first_block_may_be_oversized) {
  Arena arena(256);
  std::memset(arena.allocate(10'000), 1, 10'000);
  arena.reset();
  EXPECT_EQ(arena.extra_bytes(), 0U);
  std::memset(arena.allocate(10), 1, 10);
}

TEST(Arena, what_was_released_is_allocated_anew) {
  Arena arena(256);
  arena.release();
  for (int round = 0; round < 3; ++round) {
    std::memset(arena.allocate(100), 1, 100);
    std::memset(arena.allocate(10'000), 1, 10'000);
    arena.release();
    EXPECT_EQ(arena.extra_bytes(), 0U);
  }
}

TEST(Arena, makes_values_arrays_and_copies) {
  Arena arena;
  struct Point {
    int x;
    int y;
  };
  const Point* point = arena.make<Point>(1, 2);
  EXPECT_EQ(point->x + point->y, 3);
  const std::span<std::uint32_t> numbers = arena.make_array<std::uint32_t>(100);
  for (std::uint32_t number : numbers) EXPECT_EQ(number, 0U);
  std::string text = "slug";
  const std::string_view copy = arena.copy(text);
  text[0] = 'x';
  EXPECT_EQ(copy, "slug");
  EXPECT_TRUE(arena.copy("").empty());
  EXPECT_THROW((void)arena.make_array<std::uint64_t>(SIZE_MAX / 4), std::bad_array_new_length);
  EXPECT_THROW((void)arena.allocate(SIZE_MAX - 8), std::bad_alloc);
}

}  // namespace
}  // namespace sluice::core
