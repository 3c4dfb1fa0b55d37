#include "api/resident/dictionary.h"

#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace sluice::api::resident {
namespace {

Key number(std::uint64_t value) { return {.number = value, .bytes = {}}; }
Key text(std::string_view value) { return {.number = 0, .bytes = value}; }

TEST(ResidentDictionary, NumbersTextsInTheOrderInWhichTheyCome) {
  Dictionary texts(false);
  EXPECT_EQ(texts.size(), 0u);
  EXPECT_EQ(texts.find(text("a")), Dictionary::none);
  EXPECT_EQ(texts.intern(text("b")), 0u);
  EXPECT_EQ(texts.intern(text("")), 1u);
  EXPECT_EQ(texts.intern(text("a")), 2u);
  EXPECT_EQ(texts.intern(text("b")), 0u);
  EXPECT_EQ(texts.intern(text("")), 1u);
  EXPECT_EQ(texts.size(), 3u);
  texts.trim();
  EXPECT_EQ(texts.size(), 3u);
  EXPECT_EQ(texts.at(0).bytes, "b");
  EXPECT_EQ(texts.at(1).bytes, "");
  EXPECT_EQ(texts.at(2).bytes, "a");
  EXPECT_EQ(texts.find(text("a")), 2u);
  EXPECT_EQ(texts.find(text("ab")), Dictionary::none);
  EXPECT_TRUE(texts.less(text("a"), text("b")));
  EXPECT_TRUE(texts.less(text("a"), text("\xff")));
  EXPECT_FALSE(texts.less(text("b"), text("b")));
}

TEST(ResidentDictionary, AnEmptyOneIsTrimmedAndFindsNothing) {
  for (const bool fixed : {false, true}) {
    Dictionary none(fixed);
    none.trim();
    EXPECT_EQ(none.size(), 0u);
    EXPECT_EQ(none.find(fixed ? number(1) : text("a")), Dictionary::none);
  }
}

TEST(ResidentDictionary, ManyNumbersAndTexts) {
  std::mt19937_64 random(11);
  Dictionary numbers(true);
  Dictionary texts(false);
  std::map<std::uint64_t, std::uint32_t> known;
  std::map<std::string, std::uint32_t> spelled;
  for (int i = 0; i < 20'000; ++i) {
    // Small values repeat, large ones rarely do.
    const std::uint64_t value = i % 3 == 0 ? random() % 100 : random();
    const auto at = known.try_emplace(value, static_cast<std::uint32_t>(known.size())).first->second;
    ASSERT_EQ(numbers.intern(number(value)), at);
    const std::string word = std::to_string(value).substr(0, 1 + random() % 20);
    const auto where = spelled.try_emplace(word, static_cast<std::uint32_t>(spelled.size())).first->second;
    ASSERT_EQ(texts.intern(text(word)), where);
  }
  for (const bool trimmed : {false, true}) {
    if (trimmed) {
      const std::size_t before = numbers.memory() + texts.memory();
      numbers.trim();
      texts.trim();
      EXPECT_LT(numbers.memory() + texts.memory(), before);
    }
    ASSERT_EQ(numbers.size(), known.size());
    ASSERT_EQ(texts.size(), spelled.size());
    for (const auto& [value, id] : known) {
      ASSERT_EQ(numbers.find(number(value)), id);
      ASSERT_EQ(numbers.at(id).number, value);
    }
    for (const auto& [word, id] : spelled) {
      ASSERT_EQ(texts.find(text(word)), id);
      ASSERT_EQ(texts.at(id).bytes, word);
    }
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t value = random();
      ASSERT_EQ(numbers.find(number(value)) != Dictionary::none, known.contains(value));
    }
  }
  // As the header says: 8 bytes and another 5, plus the last slot and rounding.
  EXPECT_LE(numbers.memory(), numbers.size() * std::size_t{13} + 64);
}

}  // namespace
}  // namespace sluice::api::resident
