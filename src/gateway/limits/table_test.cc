#include "gateway/limits/table.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace sluice::gateway::limits {
namespace {

struct Entry {
  Key key;
  std::uint64_t value = 0;
  bool idle = false;
};

constexpr auto none = [](const Entry&) { return false; };
constexpr auto idle = [](const Entry& entry) { return entry.idle; };

Key key(std::uint64_t number) { return {.low = number * 0x9e3779b97f4a7c15 | 1, .high = number}; }

TEST(Table, TakesAsManyAsItSays) {
  for (const std::uint32_t capacity : {1u, 2u, 3u, 100u, 1000u}) {
    Table<Entry> table(capacity);
    for (std::uint64_t i = 0; i < capacity; ++i) ASSERT_NE(table.add(key(i), none), nullptr) << capacity;
    EXPECT_EQ(table.add(key(capacity), none), nullptr);
    EXPECT_EQ(table.size(), capacity);
    table.validate();
    for (std::uint64_t i = 0; i < capacity; ++i) EXPECT_NE(table.find(key(i)), nullptr);
    EXPECT_EQ(table.find(key(capacity)), nullptr);
  }
}

TEST(Table, WhatMayGoMakesRoomAndNothingElseDoes) {
  Table<Entry> table(100);
  for (std::uint64_t i = 0; i < 100; ++i) table.add(key(i), none)->idle = i == 37;
  EXPECT_NE(table.add(key(100), idle), nullptr);
  EXPECT_EQ(table.find(key(37)), nullptr);
  for (std::uint64_t i = 0; i <= 100; ++i) {
    if (i != 37) EXPECT_NE(table.find(key(i)), nullptr) << i;
  }
  EXPECT_EQ(table.add(key(101), idle), nullptr);
  EXPECT_EQ(table.size(), 100u);
  table.validate();
}

TEST(Table, LongBeforeItIsFullTheIdleLeave) {
  Table<Entry> table(1000);
  for (std::uint64_t i = 0; i < 100'000; ++i) table.add(key(i), idle)->idle = true;
  EXPECT_LT(table.size(), 500u);
  table.validate();
}

// Keys with the same few home places, so that entries are moved often, also across the end of the table.
TEST(Table, AgreesWithAMap) {
  std::mt19937_64 random(1);
  Table<Entry> table(48);
  std::map<std::uint64_t, std::uint64_t> expected;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t number = random() % 90;
    const Key one{.low = (number % 3 == 0 ? UINT64_MAX : number << 57) | 1, .high = number};
    Entry* const found = table.find(one);
    ASSERT_EQ(found != nullptr, expected.contains(number));
    if (found != nullptr) {
      ASSERT_EQ(found->value, expected[number]);
      if (random() % 2 == 0) {
        table.erase(*found);
        expected.erase(number);
      } else {
        found->value = expected[number] = random();
      }
    } else if (Entry* const added = table.add(one, none)) {
      added->value = expected[number] = random();
    } else {
      ASSERT_EQ(expected.size(), 48u);
    }
    ASSERT_EQ(table.size(), expected.size());
    if (step % 100 == 0) table.validate();
  }
}

}  // namespace
}  // namespace sluice::gateway::limits
