#include "api/resident/index.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::api::resident {
namespace {

// A row's values; nullopt for NULL.
using Row = std::optional<std::vector<int>>;
const Row empty{std::in_place};

constexpr ValueType numbers{.kind = Kind::integer};
constexpr ValueType several{.kind = Kind::integer, .shape = ValueType::Shape::array};
constexpr ValueType words{.kind = Kind::text};
constexpr ValueType lists{.kind = Kind::text, .shape = ValueType::Shape::array};

// Texts with the same order as the numbers, for both types.
std::string spelled(int value) {
  return std::string(static_cast<std::size_t>(value / 10), 'z') + std::to_string(value % 10);
}

void with_key(const ValueType& type, int value, const std::function<void(const Key&)>& use) {
  const std::string text = spelled(value);
  use({.number = static_cast<std::uint64_t>(value), .bytes = is_fixed(type.kind) ? std::string_view{} : text});
}

Index index_of(const ValueType& type, const std::vector<Row>& rows) {
  Index index(type);
  for (const Row& row : rows) {
    if (!row) {
      index.add_null();
    } else {
      for (const int value : *row) with_key(type, value, [&](const Key& key) { EXPECT_TRUE(index.add(key)); });
    }
    index.end_row();
  }
  index.build();
  return index;
}

std::vector<std::uint32_t> list(const Postings& postings) { return {postings.begin(), postings.end()}; }

// Compares all results of the index with the rows themselves.
void expect_agrees(const ValueType& type, const std::vector<Row>& rows) {
  const Index index = index_of(type, rows);
  std::map<int, std::vector<std::uint32_t>> owners;
  std::vector<std::uint32_t> nulls;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    if (!rows[row]) nulls.push_back(row);
    if (!rows[row]) continue;
    for (const int value : std::set<int>(rows[row]->begin(), rows[row]->end())) owners[value].push_back(row);
  }
  ASSERT_EQ(index.values(), owners.size());
  EXPECT_EQ(index.nulls(), nulls);
  const bool unique =
      std::ranges::all_of(rows,
                          [](const Row& row) { return row && std::set<int>(row->begin(), row->end()).size() == 1; }) &&
      std::ranges::all_of(owners, [](const auto& owner) { return owner.second.size() == 1; });
  EXPECT_EQ(index.unique(), unique);

  std::uint32_t rank = 0;
  std::uint64_t before = 0;
  std::map<int, std::uint32_t> ranks;
  for (const auto& [value, expected] : owners) {
    with_key(type, value, [&](const Key& key) {
      const std::uint32_t id = index.find(key);
      ASSERT_NE(id, Dictionary::none) << value;
      ASSERT_EQ(list(index.rows_of(id)), expected) << value;
      ASSERT_EQ(list(index.rows_of_rank(rank)), expected) << value;
      ASSERT_EQ(index.rank(key, false), rank);
      ASSERT_EQ(index.rank(key, true), rank + 1);
      ASSERT_EQ(index.count({0, rank}), before);
    });
    ranks[value] = rank++;
    before += expected.size();
    ASSERT_EQ(index.count({rank - 1, rank}), expected.size());
  }
  EXPECT_EQ(index.count({0, rank}), before);
  // Including values between and beyond those of the rows.
  for (int value = -1; value < (owners.empty() ? 3 : owners.rbegin()->first + 3); ++value) {
    if (value < 0 || owners.contains(value)) continue;
    with_key(type, value, [&](const Key& key) {
      ASSERT_EQ(index.find(key), Dictionary::none) << value;
      const auto below = std::distance(owners.begin(), owners.lower_bound(value));
      ASSERT_EQ(index.rank(key, false), below) << value;
      ASSERT_EQ(index.rank(key, true), below) << value;
    });
  }
  if (!type.is_single()) return;
  for (std::uint32_t row = 0; row < rows.size(); ++row) {
    ASSERT_EQ(index.rank_of_row(row), rows[row] ? ranks.at(rows[row]->front()) : index.values()) << row;
  }
}

void expect_agrees_of_each_kind(const std::vector<Row>& rows) {
  const bool scalar = std::ranges::all_of(rows, [](const Row& row) { return !row || row->size() == 1; });
  if (scalar) expect_agrees(numbers, rows);
  if (scalar) expect_agrees(words, rows);
  expect_agrees(several, rows);
  expect_agrees(lists, rows);
}

TEST(ResidentIndex, NoRowsAndNoValues) {
  expect_agrees_of_each_kind({});
  expect_agrees_of_each_kind({std::nullopt});
  expect_agrees_of_each_kind({std::nullopt, std::nullopt, std::nullopt});
  expect_agrees_of_each_kind({empty});
  expect_agrees_of_each_kind({empty, std::nullopt, empty});
}

TEST(ResidentIndex, EachRowAValueOfItsOwn) {
  expect_agrees_of_each_kind({{{1}}, {{2}}, {{5}}});
  expect_agrees_of_each_kind({{{5}}, {{2}}, {{1}}});
  expect_agrees_of_each_kind({{{2}}, {{5}}, {{1}}, {{4}}});
  // Without postings, and without ranks for values in order: only the values and the hash table's slots need memory.
  std::vector<Row> rows;
  for (int i = 0; i < 1000; ++i) rows.push_back({{i}});
  const Index ordered = index_of(numbers, rows);
  EXPECT_TRUE(ordered.unique());
  EXPECT_LE(ordered.memory(), rows.size() * 13 + 64);
}

TEST(ResidentIndex, AnArrayMayBeLongAndNameValuesAgain) {
  std::vector<Row> rows{{{1, 2}}, empty, {{}}, {{2}}};
  for (int i = 0; i < 6000; ++i) rows[2]->push_back(i * 7919 % 3000);
  expect_agrees_of_each_kind(rows);
}

// A column may stop being unique at any row.
TEST(ResidentIndex, NotUniqueAnyMoreFromSomeRowOn) {
  const std::vector<Row> unique = {{{3}}, {{1}}, {{2}}};
  const std::vector<Row> breaking = {std::nullopt,   empty,       {{1}},       {{3}},       {{2}},
                                     {{7, 8}},       {{8, 7}},    {{7, 7}},    {{7, 7, 8}}, {{7, 8, 7}},
                                     {{7, 1}},       {{1, 7}},    {{1, 1}},    {{1, 3}},    {{3, 1, 3}},
                                     {{7, 2, 7, 8}}, {{9, 8, 7}}, {{2, 7, 2}}, {{4, 4, 4}}, {{7, 8, 9, 7, 8, 9}}};
  for (const Row& row : breaking) {
    for (std::size_t before = 0; before <= unique.size(); ++before) {
      for (const Row& next : breaking) {
        std::vector<Row> rows(unique.begin(), unique.begin() + static_cast<std::ptrdiff_t>(before));
        rows.push_back(row);
        expect_agrees_of_each_kind(rows);
        rows.push_back(next);
        expect_agrees_of_each_kind(rows);
        rows.push_back({{4}});
        expect_agrees_of_each_kind(rows);
      }
    }
  }
}

// Ranks of rows take one, two or four bytes, depending on the number of values. Tests both sides of each limit, with
// and without NULL, whose rank is one more.
TEST(ResidentIndex, RanksOfEachWidth) {
  for (const int count : {253, 254, 255, 256, 257, 65'533, 65'534, 65'535, 65'536, 65'537}) {
    for (const bool with_null : {false, true}) {
      Index index(numbers);
      const auto values = static_cast<std::uint32_t>(count);
      // 7 has no common factor with these counts, so each value occurs once, out of order.
      std::vector<std::uint32_t> expected;
      for (std::uint32_t i = 0; i < values; ++i) {
        const std::uint32_t value = values - 1 - i;
        ASSERT_TRUE(index.add({.number = value, .bytes = {}}));
        index.end_row();
        expected.push_back(value);
        if (with_null && i % 1000 == 3) {
          index.add_null();
          index.end_row();
          expected.push_back(values);
        }
      }
      index.build();
      ASSERT_EQ(index.values(), values);
      EXPECT_EQ(index.unique(), !with_null);
      for (std::uint32_t row = 0; row < expected.size(); ++row) {
        ASSERT_EQ(index.rank_of_row(row), expected[row]) << count << ' ' << row;
      }
    }
  }
}

TEST(ResidentIndex, RandomRows) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    const int values = 1 + below(round % 3 == 0 ? 5 : 60);
    const int most = round % 2 == 0 ? 1 : 4;
    const int nulls = below(3);
    const bool ascending = below(3) == 0;
    const int unique = below(30);  // this many rows at the beginning have unique values
    std::vector<Row> rows;
    for (int i = 0, n = below(120); i < n; ++i) {
      if (i < unique) {
        rows.push_back({{ascending ? i : unique - i}});
      } else if (nulls != 0 && below(8) < nulls) {
        rows.emplace_back();
      } else {
        std::vector<int> row;
        for (int k = most == 1 ? 1 : below(most + 1); k > 0; --k) row.push_back(below(values));
        rows.emplace_back(std::move(row));
      }
    }
    if (ascending) {
      std::ranges::sort(rows);
    }
    expect_agrees_of_each_kind(rows);
  }
}

}  // namespace
}  // namespace sluice::api::resident
