#include "api/patch_steps.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sql/set/set.h"

namespace sluice::api {
namespace {

// UPDATE of seven optional columns and one that is always set, with the id as the key.
class PatchStepsTest : public ::testing::Test {
 public:
  static constexpr std::size_t columns = 7;

  PatchStepsTest() {
    PatchSql sql{.head = "UPDATE t SET ", .tail = " WHERE id = :set_id RETURNING id", .read = {}};
    for (std::size_t i = 0; i < columns; ++i) add("c" + std::to_string(i), true, sql);
    add("always", false, sql);
    all.sources.back().from = From::header;
    all.statement.parameters.push_back({sql::shared_parameter("id"), {}});
    all.sources.push_back({.name = "id", .from = From::path});
    for (std::size_t i = 0; i < all.sources.size(); ++i) {
      all.statement.described_types.push_back(static_cast<std::uint32_t>(100 + i));
    }
    all.statement.columns.push_back({"id", nullptr, 23});
    ids->give(all.statement);
    plan.emplace(std::move(sql), sql::Dialect::postgres, all, sql::Statement{}, std::nullopt);
  }
  void add(const std::string& name, bool optional, PatchSql& sql) {
    sql.assignments.push_back({name, name + " = :" + sql::shared_parameter(name), optional});
    all.statement.parameters.push_back({sql::shared_parameter(name), {}});
    all.sources.push_back({.name = name, .from = From::body, .body_index = all.sources.size()});
  }
  // The statement for a row that names the columns whose bits are set.
  std::shared_ptr<const WriteStep> of(unsigned named) {
    std::vector<Value> row(columns);
    for (std::size_t i = 0; i < columns; ++i) {
      if ((named >> i & 1U) != 0) row[i].kind = Value::Kind::null;
    }
    return steps.of(*plan, row, {});
  }

  std::shared_ptr<sql::StatementIds> ids = std::make_shared<sql::StatementIds>();
  WriteStep all;
  std::optional<PatchPlan> plan;
  PatchSteps steps;
};

TEST_F(PatchStepsTest, AStatementHasTheNamedColumns) {
  const auto step = of(0b100);
  EXPECT_EQ(step->statement.text, "UPDATE t SET c2 = $1, always = $2 WHERE id = $3 RETURNING id");
  EXPECT_EQ(step->statement.described_types, (std::vector<std::uint32_t>{102, 107, 108}));
  ASSERT_EQ(step->sources.size(), 3U);
  EXPECT_EQ(step->sources[0].name, "c2");
  EXPECT_EQ(step->sources[2].name, "id");
  EXPECT_EQ(step->statement.columns.size(), 1U);
  EXPECT_NE(step->statement.id, all.statement.id);
  EXPECT_EQ(of(0b100), step) << "it is kept";
  EXPECT_EQ(&of(0b1111111)->statement, &all.statement);
}

TEST_F(PatchStepsTest, OnlyTheMostRecentStatementsAreKept) {
  const auto first = of(0);
  const std::weak_ptr<const WriteStep> second = of(1);
  std::set<std::uint32_t> slots;
  for (unsigned turn = 0; turn < 3; ++turn) {
    for (unsigned named = 2; named < 127; ++named) {
      slots.insert(of(named)->statement.id.slot);
      EXPECT_EQ(of(0), first) << "it is used again and again";
    }
  }
  EXPECT_TRUE(second.expired());
  EXPECT_LE(slots.size(), PatchSteps::most + 1);
}

TEST_F(PatchStepsTest, ObjectsAreMergedIntoJson) {
  PatchSql sql{.json = {"c1"}};
  const PatchPlan json(std::move(sql), sql::Dialect::sqlite, all, {}, sql::Statement{});
  std::vector<Value> row(columns);
  EXPECT_FALSE(json.merges(row));
  row[1] = {Value::Kind::json, "[1]"};
  row[2] = {Value::Kind::json, "{}"};
  EXPECT_FALSE(json.merges(row));
  row[1].text = R"({"b":2})";
  EXPECT_TRUE(json.merges(row));
  const std::string_view current = R"({"a":1})";
  const sql::Field field{current.data(), static_cast<std::uint32_t>(current.size())};
  std::forward_list<std::string> texts;
  json.merge({&field, 1}, row, texts);
  EXPECT_EQ(row[1].text, R"({"a":1,"b":2})");
  EXPECT_EQ(row[2].text, "{}");
}

}  // namespace
}  // namespace sluice::api
