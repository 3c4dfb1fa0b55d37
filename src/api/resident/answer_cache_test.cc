#include "api/resident/answer_cache.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::api::resident {
namespace {

std::shared_ptr<const Answer> answer_of(std::size_t size, std::shared_ptr<const void> version = nullptr) {
  Buffer bytes(size);
  bytes.append(std::string(size, 'x'));
  return std::make_shared<Answer>(Answer{.tags = std::move(version), .bytes = std::move(bytes), .total = "1"});
}

TEST(ResidentAnswerCache, AnAnswerIsKeptWhenItComesTheSecondTime) {
  AnswerCache cache(1 << 20);
  EXPECT_FALSE(cache.admits("a", 100));
  EXPECT_TRUE(cache.admits("a", 100));
  EXPECT_TRUE(cache.admits("a", 100));
  EXPECT_FALSE(cache.admits("b", 100));
  EXPECT_TRUE(cache.admits("a", 100));
  EXPECT_TRUE(cache.admits("b", 100));
}

TEST(ResidentAnswerCache, WhatIsTooLargeIsNeverKept) {
  AnswerCache cache(8000);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(cache.admits("large", 1001));
  EXPECT_FALSE(cache.admits("fits", 1000));
  EXPECT_TRUE(cache.admits("fits", 1000));
  AnswerCache none(0);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(none.admits("a", 1));
  none.store("a", answer_of(0));
  EXPECT_EQ(none.find("a"), nullptr);
  EXPECT_EQ(none.counters().bytes, 0u);
}

// Queries that come only once overwrite each other's hashes. None of their answers is stored.
TEST(ResidentAnswerCache, QueriesThatComeOnceStayOutside) {
  AnswerCache cache(1 << 20);
  for (int i = 0; i < 20'000; ++i) ASSERT_FALSE(cache.admits("q" + std::to_string(i), 100)) << i;
}

TEST(ResidentAnswerCache, FindsWhatWasStored) {
  AnswerCache cache(1 << 20);
  EXPECT_EQ(cache.find("a"), nullptr);
  const auto answer = answer_of(100);
  {
    const std::string key = "a query that is longer than what a string holds within";
    cache.store(key, answer);
  }
  const auto* found = cache.find("a query that is longer than what a string holds within");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, answer);
  EXPECT_EQ(cache.find("a query"), nullptr);
  EXPECT_EQ(cache.counters().hits, 1u);
  EXPECT_EQ(cache.counters().misses, 2u);
  // A stored answer stays.
  const std::uint64_t bytes = cache.counters().bytes;
  EXPECT_GE(bytes, 100u);
  cache.store("a query that is longer than what a string holds within", answer_of(5000));
  EXPECT_EQ(cache.counters().bytes, bytes);
}

TEST(ResidentAnswerCache, TheLeastRecentlyUsedGo) {
  const auto cost = [] {
    AnswerCache cache(1 << 20);
    cache.store("0", answer_of(1000));
    return cache.counters().bytes;
  }();
  AnswerCache cache(cost * 3);
  for (const char* key : {"0", "1", "2"}) cache.store(key, answer_of(1000));
  EXPECT_EQ(cache.counters().bytes, cost * 3);
  EXPECT_NE(cache.find("0"), nullptr);  // 1 is now the oldest
  cache.store("3", answer_of(1000));
  EXPECT_EQ(cache.counters().bytes, cost * 3);
  EXPECT_EQ(cache.find("1"), nullptr);
  for (const char* key : {"0", "2", "3"}) EXPECT_NE(cache.find(key), nullptr) << key;
  // A larger answer replaces several. The oldest are 0 and 2.
  cache.store("4", answer_of(1000 + cost));
  EXPECT_EQ(cache.find("0"), nullptr);
  EXPECT_EQ(cache.find("2"), nullptr);
  EXPECT_NE(cache.find("3"), nullptr);
  EXPECT_NE(cache.find("4"), nullptr);
  EXPECT_LE(cache.counters().bytes, cost * 3);
}

TEST(ResidentAnswerCache, NeverTakesMoreThanItsLimit) {
  AnswerCache cache(20'000);
  for (int i = 0; i < 3000; ++i) {
    cache.store(std::to_string(i % 700), answer_of(static_cast<std::size_t>(i * 37 % 2500)));
    ASSERT_LE(cache.counters().bytes, 20'000u);
    (void)cache.find(std::to_string(i * 7 % 700));
  }
  EXPECT_GT(cache.counters().hits, 0u);
}

TEST(ResidentAnswerCache, AnAnswerOutlivesItsPlace) {
  AnswerCache cache(1 << 20);
  auto version = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = version;
  cache.store("a", answer_of(10, std::move(version)));
  auto held = *cache.find("a");
  cache.clear();
  EXPECT_EQ(held->bytes.view(), "xxxxxxxxxx");
  EXPECT_FALSE(watch.expired());
  held.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(ResidentAnswerCache, ClearForgetsEverything) {
  AnswerCache cache(1 << 20);
  (void)cache.admits("a", 10);
  cache.store("a", answer_of(10));
  cache.clear();
  EXPECT_EQ(cache.find("a"), nullptr);
  EXPECT_EQ(cache.counters().bytes, 0u);
  EXPECT_FALSE(cache.admits("a", 10));
  cache.store("a", answer_of(10));
  EXPECT_NE(cache.find("a"), nullptr);
}

}  // namespace
}  // namespace sluice::api::resident
