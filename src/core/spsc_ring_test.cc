#include "core/spsc_ring.h"

#include <cstdint>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace sluice::core {
namespace {

TEST(SpscRing, holds_its_capacity_and_refuses_more) {
  SpscRing<int> ring(4);
  EXPECT_EQ(ring.front(), nullptr);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.try_emplace(i));
  EXPECT_FALSE(ring.has_room());
  EXPECT_FALSE(ring.try_emplace(4));
  EXPECT_EQ(ring.readable(), 4U);
  for (int i = 0; i < 4; ++i) {
    ASSERT_NE(ring.front(), nullptr);
    EXPECT_EQ(*ring.front(), i);
    ring.pop();
  }
  EXPECT_EQ(ring.front(), nullptr);
  EXPECT_TRUE(ring.has_room());
}

TEST(SpscRing, a_refused_value_is_left_alone) {
  SpscRing<std::unique_ptr<int>> ring(1);
  EXPECT_TRUE(ring.try_emplace(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(ring.try_emplace(std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
}

TEST(SpscRing, destroys_what_is_left) {
  auto counted = std::make_shared<int>(0);
  {
    SpscRing<std::shared_ptr<int>> ring(8);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(ring.try_emplace(counted));
    ASSERT_NE(ring.front(), nullptr);
    ring.pop();
    EXPECT_EQ(counted.use_count(), 5);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(SpscRing, two_threads_see_every_value_in_order) {
  constexpr std::uint64_t count = 300'000;
  SpscRing<std::unique_ptr<std::uint64_t>> ring(64);
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < count; ++i) {
      auto value = std::make_unique<std::uint64_t>(i);
      while (!ring.try_emplace(std::move(value))) std::this_thread::yield();
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count;) {
    auto* value = ring.front();
    if (value == nullptr) {
      std::this_thread::yield();
      continue;
    }
    wrong += **value != i ? 1 : 0;
    ring.pop();
    ++i;
  }
  producer.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(ring.front(), nullptr);
}

}  // namespace
}  // namespace sluice::core
