#include "gateway/jwt/cache.h"

#include <gtest/gtest.h>

namespace sluice::gateway::jwt {
namespace {

Verified until(double ends_s, std::string_view json = "{}") {
  return {.claims = http::Claims::parse(json), .begins_s = 0, .ends_s = ends_s};
}

TEST(Cache, Remembers) {
  Cache cache(10, 1 << 20);
  EXPECT_EQ(cache.find("a", 1), nullptr);
  cache.add("a", until(10, R"({"sub":"x"})"));
  cache.add("b", until(10, R"({"sub":"y"})"));
  ASSERT_NE(cache.find("a", 1), nullptr);
  EXPECT_EQ(cache.find("a", 1)->claims->find("sub")->text, "x");
  EXPECT_EQ(cache.find("b", 1)->claims->find("sub")->text, "y");
  EXPECT_EQ(cache.find("aa", 1), nullptr);
  EXPECT_EQ(cache.find("", 1), nullptr);
  cache.add("a", until(20));  // the old entry stays
  EXPECT_EQ(cache.size(), 2u);
  cache.clear();
  EXPECT_EQ(cache.find("a", 1), nullptr);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(Cache, WhatHasExpiredLeaves) {
  Cache cache(10, 1 << 20);
  cache.add("late", until(30));
  cache.add("soon", until(10));
  cache.add("then", until(20));
  cache.add("never", until(std::numeric_limits<double>::infinity()));
  EXPECT_NE(cache.find("soon", 9.5), nullptr);
  EXPECT_EQ(cache.find("soon", 10), nullptr);
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(cache.find("nobody", 25), nullptr);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_NE(cache.find("late", 25), nullptr);
  EXPECT_NE(cache.find("never", 1e18), nullptr);
  EXPECT_EQ(cache.size(), 1u);
  cache.clear();
}

TEST(Cache, TheOneThatWasNotUsedForTheLongestTimeMakesRoom) {
  Cache cache(3, 1 << 20);
  for (const char* token : {"a", "b", "c"}) cache.add(token, until(10));
  EXPECT_NE(cache.find("a", 1), nullptr);
  for (int time = 0; time < 2; ++time) cache.add("d", until(10));
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(cache.find("b", 1), nullptr);
  for (const char* token : {"a", "c", "d"}) EXPECT_NE(cache.find(token, 1), nullptr) << token;
}

TEST(Cache, TokensThatComeOnceDisplaceNone) {
  Cache cache(3, 1 << 20);
  for (const char* token : {"a", "b", "c"}) cache.add(token, until(10));
  for (int i = 0; i < 100; ++i) cache.add("once " + std::to_string(i), until(10));
  for (const char* token : {"a", "b", "c"}) EXPECT_NE(cache.find(token, 1), nullptr) << token;
  EXPECT_EQ(cache.find("a", 10), nullptr);  // all three have expired: there is room again
  cache.add("d", until(20));
  EXPECT_NE(cache.find("d", 11), nullptr);
}

TEST(Cache, Bytes) {
  constexpr std::size_t most = 20'000;
  Cache cache(1000, most);
  for (int i = 0; i < 100; ++i) {
    for (int time = 0; time < 2; ++time) cache.add(std::to_string(i) + std::string(3000, 'x'), until(10));
    EXPECT_LE(cache.bytes(), most);
    EXPECT_NE(cache.find(std::to_string(i) + std::string(3000, 'x'), 1), nullptr);
  }
  EXPECT_GE(cache.size(), 2u);
  EXPECT_LT(cache.size(), 7u);
  const std::size_t before = cache.size();
  cache.add(std::string(most, 'y'), until(10));  // too large for the cache; evicts nothing
  EXPECT_EQ(cache.size(), before);
  cache.add("claims", until(10, "{\"a\":\"" + std::string(most, 'y') + "\"}"));
  EXPECT_EQ(cache.size(), before);
  for (int i = 0; i < 200; ++i) (void)cache.find(std::to_string(i), 11);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(Cache, OfNothing) {
  Cache none(0, 1 << 20);
  none.add("a", until(10));
  EXPECT_EQ(none.find("a", 1), nullptr);
  Cache small(10, 0);
  small.add("a", until(10));
  EXPECT_EQ(small.find("a", 1), nullptr);
}

}  // namespace
}  // namespace sluice::gateway::jwt
