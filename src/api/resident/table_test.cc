#include "api/resident/table.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"

namespace sluice::api::resident {
namespace {

TestRows people() {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("name", sql::Form::text, 25),
                 array_of("roles", sql::Form::text), column_of("at", sql::Form::timestamp_tz, 1184),
                 column_of("more", sql::Form::json, 3802)});
  rows.row({"3", "Ann \"A\"", "{admin,\"x y\"}", "2026-11-22 18:30:00+00", "{\"a\": [1, 2]}"})
      .row({"1", "Bob,\nB", "{}", nullptr, "null"})
      .row({"2", nullptr, nullptr, "2026-11-22 18:30:00.5+01", nullptr});
  return rows;
}

const TableShape by_id{.key = "id", .index = {"roles", "at"}, .csv = true, .memory_limit = 1 << 20};

std::vector<std::uint32_t> rows_with(const Table& table, std::string_view column, std::string_view text) {
  const Index& index = *table.index_of(*table.find_column(column));
  std::string scratch;
  Key key;
  EXPECT_TRUE(make_asked_key(index.type(), text, scratch, key)) << text;
  const std::uint32_t id = index.find(key);
  if (id == Dictionary::none) return {};
  const Postings found = index.rows_of(id);
  return {found.begin(), found.end()};
}

TEST(ResidentTable, RowsAreThoseOfTheEncoder) {
  const TestRows rows = people();
  const auto table = table_of(by_id, rows);
  ASSERT_EQ(table->size(), 3u);
  std::string lines;
  for (std::uint32_t row = 0; row < table->size(); ++row) lines += table->object(row);
  EXPECT_EQ(lines, encoded(sql::Format::ndjson, rows));
  EXPECT_TRUE(table->has_csv());
  EXPECT_EQ(table->csv(0, 3), encoded(sql::Format::csv, rows, sql::Header::absent));
  EXPECT_EQ(table->objects(0, 0), "");
  EXPECT_EQ(table->objects(3, 3), "");
  EXPECT_EQ(table->objects(1, 2), table->object(1));
  EXPECT_EQ(table->objects(0, 2), std::string(table->object(0)) + "," + std::string(table->object(1)));
  std::vector<std::string_view> values(5);
  table->cut(2, values);
  EXPECT_EQ(values, (std::vector<std::string_view>{"2", "null", "null", "\"2026-11-22T18:30:00.5+01:00\"", "null"}));
  EXPECT_FALSE(table_of({.key = "id"}, rows)->has_csv());
}

TEST(ResidentTable, RowsAreFoundByWhatTheyHold) {
  const auto table = table_of(by_id, people());
  EXPECT_EQ(table->find_column("more"), 4u);
  EXPECT_EQ(table->find_column("nobody"), std::nullopt);
  EXPECT_EQ(table->key(), table->index_of(0));
  EXPECT_EQ(table->index_of(1), nullptr);
  EXPECT_EQ(rows_with(*table, "id", "1"), (std::vector{1U}));
  EXPECT_EQ(rows_with(*table, "id", "4"), (std::vector<std::uint32_t>{}));
  EXPECT_EQ(rows_with(*table, "roles", "x y"), (std::vector{0U}));
  EXPECT_EQ(rows_with(*table, "at", "2026-11-22T17:30:00.5Z"), (std::vector{2U}));
  EXPECT_EQ(table->index_of(2)->nulls(), (std::vector{2U}));
  EXPECT_EQ(table_of({.index = {"name"}}, people())->key(), nullptr);
}

TEST(ResidentTable, TheSameWhereverABlockEnds) {
  const TestRows rows = people();
  const auto whole = table_of(by_id, rows);
  for (std::size_t cut = 0; cut <= rows.size(); ++cut) {
    TableBuilder builder(by_id, rows.columns);
    ASSERT_TRUE(builder.add(rows.block(0, cut)));
    ASSERT_TRUE(builder.add(rows.block(cut, cut)));
    ASSERT_TRUE(builder.add(rows.block(cut, rows.size())));
    const auto table = builder.finish();
    ASSERT_TRUE(table);
    EXPECT_EQ((*table)->objects(0, 3), whole->objects(0, 3));
    EXPECT_EQ((*table)->state(), whole->state());
    EXPECT_EQ(rows_with(**table, "id", "2"), (std::vector{2U}));
  }
}

TEST(ResidentTable, NoRows) {
  const auto table = table_of(by_id, TestRows(people().columns));
  EXPECT_EQ(table->size(), 0u);
  EXPECT_EQ(table->objects(0, 0), "");
  EXPECT_EQ(rows_with(*table, "id", "1"), (std::vector<std::uint32_t>{}));
}

// ---- The state, which identifies the content ----

TEST(ResidentTable, TheStateIsThatOfTheRows) {
  const auto state = [](const TestRows& rows, const TableShape& shape = {}) { return table_of(shape, rows)->state(); };
  const std::string whole = state(people());
  EXPECT_EQ(whole.size(), 32u);
  EXPECT_EQ(whole.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(state(people()), whole);
  EXPECT_EQ(state(people(), by_id), whole);  // the indexes do not matter
  TestRows more = people();
  more.row({"4", "D", "{}", nullptr, nullptr});
  EXPECT_NE(state(more), whole);
  TestRows other(people().columns);
  EXPECT_NE(state(other), whole);
  TestRows first({column_of("n", sql::Form::number)});
  first.row({"1"}).row({"2"});
  TestRows swapped(first.columns);
  swapped.row({"2"}).row({"1"});
  EXPECT_NE(state(first), state(swapped));
}

// Formats with a line of names have it even without rows.
TEST(ResidentTable, TheStateIsThatOfTheColumnsToo) {
  const auto a = table_of({}, TestRows({column_of("a", sql::Form::number)}));
  const auto b = table_of({}, TestRows({column_of("b", sql::Form::number)}));
  EXPECT_NE(a->state(), b->state());
  EXPECT_EQ(a->state(), table_of({}, TestRows({column_of("a", sql::Form::number)}))->state());
}

TEST(ResidentTable, MemoryIsThatOfRowsAndIndexes) {
  TestRows rows(people().columns);
  for (int i = 0; i < 5000; ++i) rows.row({std::to_string(i), "name", "{a,b}", nullptr, nullptr});
  const auto plain = table_of({}, rows);
  EXPECT_GE(plain->memory(), plain->json_bytes());
  EXPECT_LE(plain->memory(), plain->json_bytes() + 4096 + 5000 * 4 + 1024);
  const auto with_csv = table_of({.csv = true}, rows);
  EXPECT_GT(with_csv->memory(), plain->memory());
  const auto indexed = table_of({.key = "id", .index = {"roles"}}, rows);
  EXPECT_GE(indexed->memory(), plain->memory() + indexed->index_of(0)->memory() + indexed->index_of(2)->memory());
}

// ---- Invalid tables ----

std::string failure(const TableShape& shape, const TestRows& rows) {
  const auto made = build(shape, rows);
  return made ? "" : made.error();
}

TEST(ResidentTable, TheKeyTellsEachRowFromAllOthers) {
  TestRows twice = people();
  twice.row({"1", "Bob again", "{}", nullptr, nullptr});
  EXPECT_EQ(failure(by_id, twice), "several rows have the key 1");
  EXPECT_EQ(failure({.index = {"id"}}, twice), "");
  TestRows without = people();
  without.row({nullptr, "Nobody", "{}", nullptr, nullptr});
  EXPECT_EQ(failure(by_id, without), "the key \"id\" of row 4 is NULL");
  TestRows only({column_of("id", sql::Form::text)});
  only.row({nullptr});
  EXPECT_EQ(failure({.key = "id"}, only), "the key \"id\" of row 1 is NULL");
  // Two notations of one number are the same key.
  TestRows decimals({column_of("n", sql::Form::number, 1700)});
  decimals.row({"1.5"}).row({"1.50"});
  EXPECT_EQ(failure({.key = "n"}, decimals), "several rows have the key 1.5");
}

TEST(ResidentTable, MemoryHasALimit) {
  TestRows rows({column_of("id", sql::Form::number, 23), column_of("text", sql::Form::text, 25)});
  for (int i = 0; i < 1000; ++i) rows.row({std::to_string(i), std::string(100, 'x')});
  // The rows alone, and the rows with their indexes.
  EXPECT_EQ(failure({.memory_limit = 100'000}, rows), "it takes more than its memory, 100000 bytes");
  const std::uint64_t needed = table_of({.key = "id"}, rows)->memory();
  EXPECT_EQ(failure({.key = "id", .memory_limit = needed - 1}, rows),
            "it takes " + std::to_string(needed) + " bytes, and its memory is " + std::to_string(needed - 1));
  EXPECT_EQ(failure({.key = "id", .memory_limit = needed}, rows), "");
}

TEST(ResidentTable, ValuesThatCannotBeIndexed) {
  TestRows rows(
      {column_of("a", sql::Form::number, 23), array_of("b", sql::Form::number), column_of("c", sql::Form::text, 1082)});
  rows.row({"1", "{1}", "2026-11-22"}).row({"x", "{y}", "soon"});
  EXPECT_EQ(failure({.index = {"a"}}, rows), "a value of \"a\" cannot be indexed: x");
  EXPECT_EQ(failure({.index = {"b"}}, rows), "a value of \"b\" cannot be indexed: {y}");
  EXPECT_EQ(failure({.index = {"c"}}, rows), "a value of \"c\" cannot be indexed: soon");
  EXPECT_EQ(failure({}, rows), "");
}

TEST(ResidentTable, AShapeThatDoesNotFitTheColumns) {
  auto columns = people().columns;
  columns.push_back(column_of("sort", sql::Form::text));
  columns.push_back(column_of("blob", sql::Form::bytes));
  const auto check = [&](const TableShape& shape) { return check_shape(shape, columns); };
  EXPECT_EQ(check({}), "");
  EXPECT_EQ(check(by_id), "");
  EXPECT_EQ(check({.key = "nobody"}), "key \"nobody\" is no column of the query");
  EXPECT_EQ(check({.index = {"id", "nobody"}}), "index \"nobody\" is no column of the query");
  EXPECT_EQ(check({.key = "roles"}), "key \"roles\" holds several values");
  EXPECT_EQ(check({.key = "more"}), "key \"more\" holds several values");
  EXPECT_EQ(check({.index = {"more"}}), "");
  EXPECT_EQ(check({.key = "blob"}), "key \"blob\": values of its type cannot be compared");
  EXPECT_EQ(check({.index = {"blob"}}), "index \"blob\": values of its type cannot be compared");
  EXPECT_EQ(check({.index = {"sort"}}),
            "index \"sort\": a parameter of that name means something else; call the column otherwise (AS)");
  columns.push_back(column_of("or", sql::Form::text));
  EXPECT_EQ(check({.index = {"or"}}),
            "index \"or\": a parameter of that name means something else; call the column otherwise (AS)");
  columns.push_back(column_of("id", sql::Form::text));
  EXPECT_EQ(check({}), "two columns are called \"id\"");
}

// ---- SQLite: a column's values may be of any class, and may be JSON or not ----

TEST(ResidentTable, SqliteColumns) {
  TestRows rows({sqlite_column("n", "INTEGER"), sqlite_column("any", ""), sqlite_column("tags", "JSON"),
                 sqlite_column("flag", "BOOLEAN"), sqlite_column("t", "TEXT")});
  const auto number = sql::Form::number;
  rows.row({{"1", number}, {"1.0", number}, {"[\"a\",\"b\"]", sql::Form::json}, {"t", sql::Form::boolean}, "5"})
      .row({{"2", number}, "1", "plain", {"f", sql::Form::boolean}, "5.0"})
      .row({{"3", number}, {"1", sql::Form::bytes}, nullptr, {"2", number}, ""});
  const auto table = table_of({.key = "n", .index = {"any", "tags", "flag", "t"}}, rows);
  using Rows = std::vector<std::uint32_t>;
  EXPECT_EQ(rows_with(*table, "n", "2.0"), (Rows{1}));
  EXPECT_EQ(rows_with(*table, "any", "1"), (Rows{0}));
  EXPECT_EQ(rows_with(*table, "tags", "b"), (Rows{0}));
  EXPECT_EQ(rows_with(*table, "tags", "plain"), (Rows{1}));
  EXPECT_EQ(rows_with(*table, "flag", "true"), (Rows{0}));
  EXPECT_EQ(rows_with(*table, "flag", "false"), (Rows{1}));
  EXPECT_EQ(rows_with(*table, "t", "5"), (Rows{0}));
  TestRows blob({sqlite_column("tags", "JSON")});
  blob.row({{"x", sql::Form::bytes}});
  EXPECT_EQ(failure({.index = {"tags"}}, blob), "a value of \"tags\" cannot be indexed: x");
}

}  // namespace
}  // namespace sluice::api::resident
