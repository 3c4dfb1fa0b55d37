#include "api/resident/row_store.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::api::resident {
namespace {

void expect_holds(const RowStore& store, const std::vector<std::string>& rows) {
  ASSERT_EQ(store.size(), rows.size());
  std::string all;
  std::vector<std::size_t> starts;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(store.row(i), rows[i]) << i;
    starts.push_back(all.size());
    all += rows[i];
  }
  starts.push_back(all.size());
  ASSERT_EQ(store.text(), all);
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    auto first = static_cast<std::uint32_t>(random() % (rows.size() + 1));
    auto last = static_cast<std::uint32_t>(random() % (rows.size() + 1));
    if (first > last) std::swap(first, last);
    ASSERT_EQ(store.rows(first, last), std::string_view(all).substr(starts[first], starts[last] - starts[first]));
  }
  ASSERT_GE(store.memory(), all.size());
}

TEST(ResidentRowStore, NothingAtAll) {
  RowStore store;
  expect_holds(store, {});
  EXPECT_EQ(store.memory(), 0u);
  store.trim();
  expect_holds(store, {});
}

TEST(ResidentRowStore, RowsWithoutBytes) {
  RowStore store;
  const std::vector<std::string> rows(600);
  for (const auto& row : rows) store.append(row);
  expect_holds(store, rows);
  store.trim();
  expect_holds(store, rows);
}

// Starts are stored in groups of 256.
TEST(ResidentRowStore, AroundTheEndsOfGroups) {
  for (const std::size_t count : {1, 255, 256, 257, 511, 512, 513, 1024}) {
    RowStore store;
    std::vector<std::string> rows;
    for (std::size_t i = 0; i < count; ++i) {
      rows.push_back(std::string(i % 7, 'x') + std::to_string(i));
      store.append(rows.back());
    }
    expect_holds(store, rows);
    store.trim();
    expect_holds(store, rows);
  }
}

TEST(ResidentRowStore, GrowsByPagesAndGivesThemBack) {
  RowStore store;
  std::vector<std::string> rows;
  std::mt19937 random(2);
  std::size_t bytes = 0;
  for (int i = 0; i < 300; ++i) {
    // From a few bytes to more than all previous rows together.
    rows.emplace_back(i == 200 ? 3'000'000 : random() % (i % 10 == 0 ? 40'000 : 100), static_cast<char>('a' + i % 26));
    bytes += rows.back().size();
    store.append(rows.back());
  }
  expect_holds(store, rows);
  const std::size_t before = store.memory();
  store.trim();
  expect_holds(store, rows);
  EXPECT_LE(store.memory(), before);
  EXPECT_LE(store.memory(), bytes + 4096 + rows.size() * 4 + 16);
}

TEST(ResidentRowStore, ExactlyOnePage) {
  RowStore store;
  store.append(std::string(4096, 'p'));
  store.trim();
  expect_holds(store, {std::string(4096, 'p')});
}

TEST(ResidentRowStore, Moves) {
  RowStore store;
  store.append("one");
  store.append("two");
  const char* const where = store.text().data();
  RowStore moved(std::move(store));
  expect_holds(moved, {"one", "two"});
  EXPECT_EQ(moved.text().data(), where);
  RowStore other;
  other.append("gone");
  other = std::move(moved);
  expect_holds(other, {"one", "two"});
  other.append("three");
  expect_holds(other, {"one", "two", "three"});
}

}  // namespace
}  // namespace sluice::api::resident
