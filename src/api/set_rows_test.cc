#include "api/set_rows.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/writing_fixture.h"

namespace sluice::api {
namespace {

// Rows of `tag`, the key, and `note`, which a PATCH may omit.
class SetRowsTest : public ::testing::Test {
 public:
  explicit SetRowsTest(http::Method method = http::Method::put) {
    EndpointOptions endpoint;
    endpoint.path.value = "/tags";
    MethodOptions options;
    options.table.value = "tags";
    ColumnOptions tag;
    tag.key = true;
    options.columns = {{{"tag"}, tag}, {{"note"}, {}}};
    const auto pattern = http::Pattern::parse(endpoint.path.value);
    sql::SetPlan set;
    for (const sql::SetColumn& column : set_options(method, options, *pattern).columns) {
      set.staged.push_back(column.name);
      set.optional.push_back(column.optional);
      set.not_null.push_back(column.key);
    }
    plan.emplace(method, endpoint, options, *pattern, std::move(set));
  }
  // The pending rows, as "a,NULL;b,-;", where - is a value that was left out.
  static std::string text_of(SetRows& rows) {
    std::string text;
    const auto values = rows.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      text += values[i].left_out ? "-" : values[i].text ? std::string(*values[i].text) : "NULL";
      text += i % 2 == 0 ? "," : ";";
    }
    return text;
  }
  static void feed(SetRows& rows, std::string_view bytes) {
    rows.reader().feed(bytes);
    rows.reader().finish();
  }

  http::Exchange exchange;
  http::Request& request = exchange.request;
  std::optional<SetWritePlan> plan;
  testing::FakeDatabase database;
};
class SetRowsOfPatch : public SetRowsTest {
 public:
  SetRowsOfPatch() : SetRowsTest(http::Method::patch) {}
};

TEST_F(SetRowsTest, RowsAreGatheredAsTheyCome) {
  SetRows rows(*plan, BodyFormat::json, exchange);
  rows.reader().feed(R"([{"tag":"a","note":"x"},{"tag":)");
  EXPECT_FALSE(rows.take());
  EXPECT_FALSE(rows.ended());
  EXPECT_EQ(rows.pending(), 1u);
  rows.reader().feed(R"("b","note":null}])");
  EXPECT_FALSE(rows.take());
  rows.reader().finish();
  EXPECT_FALSE(rows.take());
  EXPECT_TRUE(rows.ended());
  EXPECT_EQ(text_of(rows), "a,x;b,NULL;") << "texts stay what they were while others came";
  rows.clear();
  EXPECT_EQ(rows.pending(), 0u);
  EXPECT_TRUE(rows.values().empty());
}

TEST_F(SetRowsTest, ABatchIsBoundedByRows) {
  std::string csv = "tag,note\n";
  for (int i = 0; i < 2500; ++i) csv += std::to_string(i) + ",n\n";
  SetRows rows(*plan, BodyFormat::csv, exchange);
  feed(rows, csv);
  std::vector<std::size_t> batches;
  while (rows.take()) {
    batches.push_back(rows.pending());
    rows.clear();
  }
  batches.push_back(rows.pending());
  EXPECT_EQ(batches, (std::vector<std::size_t>{1024, 1024, 452}));
  EXPECT_TRUE(rows.faults().empty());
}

TEST_F(SetRowsTest, ABatchIsBoundedByBytes) {
  std::string csv = "tag,note\n";
  for (int i = 0; i < 5; ++i) csv += std::to_string(i) + "," + std::string(100'000, 'x') + "\n";
  SetRows rows(*plan, BodyFormat::csv, exchange);
  feed(rows, csv);
  ASSERT_TRUE(rows.take());
  EXPECT_EQ(rows.pending(), 2u);
}

TEST_F(SetRowsTest, ABadRowStopsTheOthersFromBeingKept) {
  SetRows rows(*plan, BodyFormat::json, exchange);
  feed(rows, "[{\"tag\":\"a\"},\n{\"tag\":null},\n{\"note\":\"x\"},\n{\"tag\":\"b\"}]");
  EXPECT_FALSE(rows.take());
  ASSERT_EQ(rows.faults().size(), 2u);
  EXPECT_EQ(rows.faults()[0].reason, "must not be null");
  EXPECT_EQ(rows.faults()[0].line, 2u);
  EXPECT_EQ(rows.faults()[1].reason, "is missing");
  EXPECT_EQ(rows.faults()[1].row, 2u);
  EXPECT_EQ(rows.pending(), 1u) << "what comes behind a fault is only looked at";
  EXPECT_FALSE(rows.broken());
}

TEST_F(SetRowsTest, FaultsEndAtTheirLimit) {
  std::string csv = "tag,note\n";
  for (int i = 0; i < 300; ++i) csv += ",n\n";
  SetRows rows(*plan, BodyFormat::csv, exchange);
  feed(rows, csv);
  EXPECT_FALSE(rows.take());
  EXPECT_TRUE(rows.ended());
  EXPECT_EQ(rows.faults().size(), most_faults);
}

TEST_F(SetRowsTest, ABodyThatIsNoneIsBroken) {
  SetRows rows(*plan, BodyFormat::json, exchange);
  feed(rows, R"([{"tag":null},{"tag":)");
  while (rows.take()) continue;
  EXPECT_TRUE(rows.ended());
  EXPECT_TRUE(rows.broken());
  EXPECT_EQ(rows.faults().size(), 1u) << "what the rows before it lacked does not matter any more";
}

TEST_F(SetRowsTest, TheDatabaseGetsThemWithTheirLines) {
  SetRows rows(*plan, BodyFormat::csv, exchange);
  feed(rows, "tag,note\na,x\n\"b\nc\",\nd,\"\"\n");
  EXPECT_FALSE(rows.take());
  const auto staging = database.stage(plan->set, {});
  bool added = false;
  core::TaskGroup tasks;
  tasks.spawn([](SetRows& from, sql::Staging& to, bool& done) -> core::Task<void> {
    done = (co_await from.hand_over(to)).has_value();
  }(rows, *staging, added));
  EXPECT_TRUE(added);
  EXPECT_EQ(database.log, "stage\nline 2: 'a' 'x'\nline 3: 'b\nc' NULL\nline 5: 'd' ''\n");
  EXPECT_EQ(rows.pending(), 0u);
}

TEST_F(SetRowsOfPatch, WhatIsLeftOutIsTold) {
  SetRows rows(*plan, BodyFormat::json, exchange);
  feed(rows, R"([{"tag":"a"},{"tag":"b","note":null}])");
  EXPECT_FALSE(rows.take());
  EXPECT_EQ(text_of(rows), "a,-;b,NULL;");
}

}  // namespace
}  // namespace sluice::api
