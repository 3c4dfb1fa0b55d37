#include "api/resident/delta.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <ranges>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/query.h"
#include "api/resident/row_writer.h"
#include "api/resident/rows_for_tests.h"

namespace sluice::api::resident {
namespace {

const TableShape shape{.key = "id", .index = {"name", "tags", "score"}, .csv = true, .memory_limit = 1 << 30};
const ChangesShape changes_shape{.version = "at", .deleted = "gone"};

struct Row {
  std::string name;
  std::string tags;                  // an array; empty for NULL
  std::optional<std::string> score;  //
  std::uint64_t at = 0;
};

std::vector<sql::Column> table_columns() {
  return {column_of("id", sql::Form::number, 20), column_of("name", sql::Form::text, 25),
          array_of("tags", sql::Form::text), column_of("score", sql::Form::number, 1700),
          column_of("at", sql::Form::number, 20)};
}

// The columns in another order, with additional ones.
std::vector<sql::Column> changes_columns() {
  auto columns = table_columns();
  std::swap(columns[0], columns[4]);
  columns.push_back(column_of("more", sql::Form::text, 25));
  columns.push_back(column_of("gone", sql::Form::boolean, 16));
  return columns;
}

TestValue or_null(const std::string& text) { return text.empty() ? TestValue(nullptr) : TestValue(text); }
TestValue or_null(const std::optional<std::string>& text) { return text ? TestValue(*text) : TestValue(nullptr); }

void add_row(TestRows& rows, int id, const Row& row) {
  rows.row({std::to_string(id), row.name, or_null(row.tags), or_null(row.score), std::to_string(row.at)});
}
void add_change(TestRows& rows, int id, const Row& row) {
  rows.row({std::to_string(row.at), row.name, or_null(row.tags), or_null(row.score), std::to_string(id), "x", "f"});
}
void add_tombstone(TestRows& rows, int id, std::uint64_t at) {
  rows.row({std::to_string(at), nullptr, nullptr, nullptr, std::to_string(id), nullptr, "t"});
}

std::expected<std::shared_ptr<const Table>, std::string> apply(std::shared_ptr<const Table> old,
                                                               const TestRows& changes, Since& since,
                                                               const TableShape& of = shape) {
  EXPECT_EQ(check_changes(of, changes_shape, old->columns(), changes.columns), "");
  Delta delta(of, changes_shape, std::move(old), changes.columns);
  // In two blocks, as a database may return them.
  const std::size_t half = changes.size() / 2;
  if (auto added = delta.add(changes.block(0, half), since); !added) return std::unexpected(added.error());
  if (auto added = delta.add(changes.block(half, changes.size()), since); !added) return std::unexpected(added.error());
  return delta.apply();
}

// All results of an index, as text.
std::string show(const Index& index, std::uint32_t rows) {
  std::string text = index.unique() ? "unique" : "";
  for (std::uint32_t rank = 0; rank < index.values(); ++rank) {
    text += "\n" + std::to_string(rank) + ":";
    for (const std::uint32_t row : index.rows_of_rank(rank)) text += " " + std::to_string(row);
  }
  text += "\nnull:";
  for (const std::uint32_t row : index.nulls()) text += " " + std::to_string(row);
  text += "\nranks:";
  for (std::uint32_t row = 0; index.type().is_single() && row < rows; ++row) {
    text += " " + std::to_string(index.rank_of_row(row));
  }
  text += "\ncount: " + std::to_string(index.count({0, index.values()})) + ", " +
          std::to_string(index.count({index.values() / 3, index.values() / 2}));
  return text;
}

std::string written(const Table& table, sql::Format format) {
  RowWriter writer(table, {.format = format});
  Buffer out;
  for (std::uint32_t row = 0; row < table.size(); ++row) writer.row(row, out);
  return std::string(out.view());
}

void expect_same(const Table& made, const Table& wanted) {
  ASSERT_EQ(written(made, sql::Format::json), written(wanted, sql::Format::json));
  EXPECT_EQ(written(made, sql::Format::csv), written(wanted, sql::Format::csv));
  EXPECT_EQ(made.state(), wanted.state());
  EXPECT_EQ(made.json_bytes(), wanted.json_bytes());
  // Short texts are rounded up. Words stay even if no row has them any more.
  if (made.packed() == nullptr) EXPECT_LT(made.memory(), wanted.memory() + 256);
  for (std::size_t column = 0; column < wanted.columns().size(); ++column) {
    const Index* const index = wanted.index_of(column);
    ASSERT_EQ(made.index_of(column) == nullptr, index == nullptr);
    if (index != nullptr) EXPECT_EQ(show(*made.index_of(column), made.size()), show(*index, wanted.size()));
  }
  for (const char* const text :
       {"name=n1", "tags=a", "tags=b&tags=c", "score=gte.3", "score=is.null", "id=in.(1,2,3,40)", "sort=-score,name",
        "sort=name&tags=c", "id=gt.20&name=lt.n3", "tags=is.null"}) {
    const auto mine = parse_query(made, text);
    const auto its = parse_query(wanted, text);
    ASSERT_TRUE(mine && its) << text;
    EXPECT_EQ(rows_of(select(made, *mine)), rows_of(select(wanted, *its))) << text;
  }
}

class RandomDelta : public testing::TestWithParam<int> {
 protected:
  Row random_row(std::uint64_t at) {
    static constexpr std::array tags{"", "{}", "{a}", "{b,c}", "{c,a,a}", "{\"x y\",NULL}"};
    Row row{.name = "n" + std::to_string(random() % 6), .tags = tags[random() % tags.size()], .score = {}, .at = at};
    if (random() % 4 != 0) row.score = std::to_string(random() % 5) + "." + std::to_string(random() % 3);
    return row;
  }
  std::mt19937 random{static_cast<unsigned>(GetParam())};
};

// The rows in the order of a query: ascending keys, descending keys, or neither. Every second table is packed.
TEST_P(RandomDelta, MakesTheTableThatTheRowsMake) {
  TableShape its = shape;
  its.on_demand = GetParam() % 2 != 0;
  for (const int order : {1, -1, 0}) {
    std::map<int, Row> rows;
    std::vector<int> places;  // positions if the rows are in neither order
    std::uint64_t at = 0;
    const std::size_t begins_with = random() % 3 == 0 ? 2 : 40;
    while (rows.size() < begins_with) {
      const int id = static_cast<int>(random() % 60);
      if (rows.emplace(id, random_row(++at)).second) places.push_back(id);
    }
    if (order == 0) {
      // Neither ascending nor descending.
      std::ranges::sort(places);
      places.insert(places.begin(), 1000);
      rows[1000] = random_row(++at);
      places.push_back(1001);
      rows[1001] = random_row(++at);
    }
    const auto whole = [&] {
      TestRows all(table_columns());
      if (order == 0) {
        for (const int id : places) add_row(all, id, rows.at(id));
      } else if (order > 0) {
        for (const auto& [id, row] : rows) add_row(all, id, row);
      } else {
        for (const auto& [id, row] : std::views::reverse(rows)) add_row(all, id, row);
      }
      return table_of(its, all);
    };
    std::shared_ptr<const Table> table = whole();
    expect_same(*table, *whole());
    Since since;
    for (int round = 0; round < 12; ++round) {
      TestRows changes(changes_columns());
      std::vector<int> seen;
      for (std::size_t edits = random() % 8; edits > 0; --edits) {
        const int id = static_cast<int>(random() % 60);
        if (std::ranges::find(seen, id) != seen.end()) continue;
        seen.push_back(id);
        switch (random() % 4) {
          case 0:
            add_tombstone(changes, id, ++at);
            if (rows.erase(id) != 0) std::erase(places, id);
            break;
          case 1:
            if (rows.contains(id)) add_change(changes, id, rows.at(id));  // unchanged
            break;
          default:
            if (!rows.contains(id)) places.push_back(id);
            rows[id] = random_row(++at);
            // Including a row that was deleted and then inserted again.
            if (random() % 4 == 0) add_tombstone(changes, id, at);
            add_change(changes, id, rows.at(id));
        }
      }
      const auto next = apply(table, changes, since, its);
      ASSERT_TRUE(next) << next.error();
      const auto wanted = whole();
      if (wanted->state() == table->state()) EXPECT_EQ(*next, table);
      expect_same(**next, *wanted);
      if (testing::Test::HasFailure()) return;
      table = *next;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomDelta, testing::Range(0, 40));

class DeltaTest : public testing::Test {
 protected:
  DeltaTest() {
    TestRows rows(table_columns());
    add_row(rows, 1, {.name = "a", .tags = "{a}", .score = "1", .at = 5});
    add_row(rows, 3, {.name = "b", .tags = "{b}", .score = "2", .at = 4});
    old = table_of(shape, rows);
  }
  std::shared_ptr<const Table> old;
  Since since;
};

TEST_F(DeltaTest, NotesTheGreatestVersion) {
  TestRows changes(changes_columns());
  add_change(changes, 1, {.name = "c", .tags = "", .score = {}, .at = 9});
  add_tombstone(changes, 3, 10);
  add_change(changes, 2, {.name = "c", .tags = "", .score = {}, .at = 7});
  const auto next = apply(old, changes, since);
  ASSERT_TRUE(next);
  EXPECT_EQ((*next)->size(), 2U);
  ASSERT_TRUE(since.known());
  EXPECT_EQ(since.argument().text, "10");
}

TEST_F(DeltaTest, TakesAwayAllRows) {
  TestRows changes(changes_columns());
  add_tombstone(changes, 3, 6);
  add_tombstone(changes, 3, 7);
  add_tombstone(changes, 1, 7);
  add_tombstone(changes, 77, 7);
  const auto next = apply(old, changes, since);
  ASSERT_TRUE(next);
  EXPECT_EQ((*next)->size(), 0U);
  TestRows again(changes_columns());
  add_change(again, 2, {.name = "c", .tags = "{a}", .score = "3", .at = 8});
  const auto last = apply(*next, again, since);
  ASSERT_TRUE(last);
  TestRows rows(table_columns());
  add_row(rows, 2, {.name = "c", .tags = "{a}", .score = "3", .at = 8});
  expect_same(**last, *table_of(shape, rows));
}

// The ids of a table with these rows after one delta that deletes rows and another one that adds rows.
std::string ids_after(const std::vector<int>& ids, const std::vector<int>& deleted, const std::vector<int>& added) {
  TestRows rows(table_columns());
  for (const int id : ids) add_row(rows, id, {.name = "a", .tags = {}, .score = {}, .at = 1});
  std::shared_ptr<const Table> table = table_of(shape, rows);
  Since since;
  TestRows fewer(changes_columns());
  for (const int id : deleted) add_tombstone(fewer, id, 2);
  table = apply(table, fewer, since).value();
  TestRows more(changes_columns());
  for (const int id : added) add_change(more, id, {.name = "a", .tags = {}, .score = {}, .at = 3});
  table = apply(table, more, since).value();
  std::string text;
  std::vector<std::string_view> values(table->columns().size());
  for (std::uint32_t row = 0; row < table->size(); ++row) {
    table->cut(row, values);
    text += (row == 0 ? "" : " ") + std::string(values[0]);
  }
  return text;
}

TEST(DeltaOrder, IsKeptHoweverFewRowsAreLeft) {
  EXPECT_EQ(ids_after({1, 2, 3}, {1, 3}, {7, 1}), "1 2 7");
  EXPECT_EQ(ids_after({3, 2, 1}, {1, 3}, {1, 7}), "7 2 1");
  EXPECT_EQ(ids_after({3, 2}, {2, 3}, {1, 7}), "7 1");
  EXPECT_EQ(ids_after({2, 1, 3}, {2}, {9, 2}), "1 3 9 2") << "what is left is in order by chance";
  EXPECT_EQ(ids_after({2, 1, 3}, {1, 2, 3}, {9, 2}), "9 2");
}

TEST(DeltaOrder, OfFewerThanTwoRowsCountsAsAscending) {
  EXPECT_EQ(ids_after({5}, {}, {7, 1}), "1 5 7");
  EXPECT_EQ(ids_after({}, {}, {7, 1}), "1 7");
  EXPECT_EQ(ids_after({5}, {5}, {7, 1}), "1 7");
}

TEST_F(DeltaTest, RefusesWhatIsNoTable) {
  TestRows twice(changes_columns());
  add_change(twice, 2, {.name = "c", .tags = "", .score = {}, .at = 9});
  add_change(twice, 2, {.name = "d", .tags = "", .score = {}, .at = 9});
  EXPECT_EQ(apply(old, twice, since).error(), "several rows have the key 2");

  TestRows nobody(changes_columns());
  nobody.row({"9", nullptr, nullptr, nullptr, nullptr, nullptr, "t"});
  EXPECT_EQ(apply(old, nobody, since).error(), "a row that is deleted has no \"id\"");

  TestRows unversioned(changes_columns());
  unversioned.row({"soon", "a", nullptr, nullptr, "1", nullptr, "f"});
  EXPECT_EQ(apply(old, unversioned, since).error(), "\"soon\" is no version");

  TestRows large(changes_columns());
  add_change(large, 2, {.name = std::string(2000, 'x'), .tags = "", .score = {}, .at = 9});
  TableShape small = shape;
  small.memory_limit = 1000;
  EXPECT_TRUE(apply(old, large, since, small).error().starts_with("it takes"));
}

TEST_F(DeltaTest, TakesAnythingForDeletedThatIsNotFalse) {
  auto columns = changes_columns();
  for (const auto& [form, text, goes] :
       std::vector<std::tuple<sql::Form, const char*, bool>>{{sql::Form::number, "0", false},
                                                             {sql::Form::number, "0.0", false},
                                                             {sql::Form::number, "-2", true},
                                                             {sql::Form::timestamp, "2026-11-22 18:30:00", true},
                                                             {sql::Form::text, "", true},
                                                             {sql::Form::boolean, "f", false},
                                                             {sql::Form::boolean, "t", true}}) {
    for (const bool is_dynamic : {false, true}) {
      columns.back() = column_of("gone", is_dynamic ? sql::Form::dynamic : form);
      TestRows changes(columns);
      changes.row({"9", "c", nullptr, nullptr, "1", nullptr, TestValue(text, form)});
      const auto next = apply(old, changes, since);
      ASSERT_TRUE(next);
      EXPECT_EQ((*next)->size(), goes ? 1U : 2U) << text;
    }
  }
}

TEST(CheckChanges, SaysWhatIsWrong) {
  const auto columns = table_columns();
  const auto changes = changes_columns();
  const auto check = [&](const TableShape& its, const ChangesShape& changed, const std::vector<sql::Column>& of) {
    return check_changes(its, changed, columns, of);
  };
  EXPECT_EQ(check(shape, changes_shape, changes), "");
  EXPECT_EQ(check(shape, {.version = "at", .deleted = {}}, columns), "");
  EXPECT_EQ(check({.key = {}, .index = {}}, changes_shape, changes),
            "changes are found by the table's \"key\", which is missing");
  EXPECT_EQ(check(shape, {.version = "when", .deleted = {}}, changes),
            "version \"when\" is no column of the query, and a load must know the greatest");
  EXPECT_EQ(check(shape, {.version = "tags", .deleted = {}}, changes),
            "version \"tags\": values of its type have no order");
  EXPECT_EQ(check(shape, {.version = "at", .deleted = "dead"}, changes),
            "deleted \"dead\" is no column of the changes");
  auto less = changes;
  less.erase(less.begin() + 1);
  EXPECT_EQ(check(shape, changes_shape, less), "the changes have no column \"name\", as the query has");
  auto other = changes;
  other[3] = column_of("score", sql::Form::text, 25);
  EXPECT_EQ(check(shape, changes_shape, other),
            "column \"score\" of the changes has another type than that of the query");
  auto twice = changes;
  twice.push_back(twice[1]);
  EXPECT_EQ(check(shape, changes_shape, twice), "two columns are called \"name\"");
}

}  // namespace
}  // namespace sluice::api::resident
