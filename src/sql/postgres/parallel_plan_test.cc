#include "sql/postgres/parallel_plan.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::sql::postgres {
namespace {

std::expected<RangeParameters, std::string> range_of(std::string_view sql) {
  const auto parsed = parse_parameters(sql, PlaceholderStyle::dollar);
  EXPECT_TRUE(parsed) << sql;
  return find_range(*parsed);
}

TEST(ParallelText, NamesTheRange) {
  const auto plain = range_of("SELECT * FROM films WHERE ctid >= :ctid_from AND ctid < :ctid_to");
  ASSERT_TRUE(plain) << plain.error();
  EXPECT_EQ(plain->from, 0U);
  EXPECT_EQ(plain->to, 1U);
  const auto other = range_of("SELECT 1 FROM f WHERE a = :a AND F.CTID\n<=  :ctid_to AND ctid>:ctid_from AND b = :a");
  ASSERT_TRUE(other) << other.error();
  EXPECT_EQ(other->from, 2U);
  EXPECT_EQ(other->to, 1U);
}

TEST(ParallelText, RefusesWhatUsesTheRangeForAnythingElse) {
  for (const std::string_view sql : {
           "SELECT * FROM films",
           "SELECT * FROM films WHERE ctid >= :ctid_from",
           "SELECT * FROM films WHERE ctid < :ctid_to",
           "SELECT * FROM films WHERE ctid >= :ctid_to AND ctid < :ctid_from",
           "SELECT * FROM films WHERE ctid < :ctid_from AND ctid >= :ctid_to",
           "SELECT *, :ctid_from FROM films WHERE ctid >= :ctid_from AND ctid < :ctid_to",
           "SELECT * FROM films WHERE ctid >= :ctid_from AND ctid < :ctid_to AND id IN (SELECT id FROM a WHERE ctid < "
           ":ctid_to)",
           "WITH r AS (SELECT :ctid_from::tid f, :ctid_to::tid t) SELECT * FROM films, r WHERE ctid >= f AND ctid < t",
           "SELECT * FROM films WHERE myctid >= :ctid_from AND ctid < :ctid_to",
           "SELECT * FROM films WHERE ctid = :ctid_from AND ctid < :ctid_to",
           "SELECT * FROM films WHERE :ctid_from <= ctid AND ctid < :ctid_to",
           "SELECT * FROM films WHERE ctid >= (:ctid_from) AND ctid < :ctid_to",
       }) {
    const auto range = range_of(sql);
    ASSERT_FALSE(range) << sql;
    EXPECT_TRUE(range.error().contains("ctid")) << range.error();
  }
}

std::string plan(std::string_view node) { return R"([{"Plan": )" + std::string(node) + "}]"; }

std::string scan(std::string_view condition = "((ctid >= $1) AND (ctid < $2))", std::string_view more = "") {
  return R"({"Node Type": "Tid Range Scan", "Schema": "public", "Relation Name": "films", "Parent Relationship": "Outer",)"
         R"( "TID Cond": ")" +
         std::string(condition) + "\"" + std::string(more) + "}";
}

std::string above(std::string_view node, std::string_view below) {
  return R"({"Node Type": ")" + std::string(node) + R"(", "Parent Relationship": "Outer", "Plans": [)" +
         std::string(below) + "]}";
}

TEST(ParallelPlan, OfTheRowsOfOneTable) {
  for (const std::string& node : {scan(), above("Result", scan()), above("ProjectSet", above("Result", scan())),
                                  above("Subquery Scan", scan("((f.ctid > $1) AND (f.ctid <= $2))")),
                                  scan("((ctid > '(0,7)'::tid) AND (ctid >= $1) AND (ctid < $2))"),
                                  // A sub-plan may have any form, because it runs once for each row.
                                  scan("((ctid >= $1) AND (ctid < $2))",
                                       R"(, "Plans": [{"Node Type": "Aggregate", "Parent Relationship": "SubPlan"},)"
                                       R"( {"Node Type": "Limit", "Parent Relationship": "InitPlan"}])")}) {
    const auto table = check_plan(plan(node), {0, 1});
    ASSERT_TRUE(table) << node << "\n" << table.error();
    EXPECT_EQ(table->schema, "public");
    EXPECT_EQ(table->name, "films");
  }
  EXPECT_TRUE(check_plan(plan(scan("((ctid < $3) AND (ctid >= $12))")), {11, 2}));
}

TEST(ParallelPlan, RefusesWhatTakesRowsTogether) {
  for (const std::string_view node :
       {"Sort", "Limit", "Aggregate", "WindowAgg", "Unique", "Group", "LockRows", "Gather", "Materialize",
        "Incremental Sort", "SetOp", "Nested Loop", "Something New"}) {
    for (const std::string& whole :
         {above(node, scan()), above("Result", above(node, scan())), above(node, above("Result", scan()))}) {
      const auto table = check_plan(plan(whole), {0, 1});
      ASSERT_FALSE(table) << whole;
      EXPECT_TRUE(table.error().contains(node)) << table.error();
    }
  }
}

TEST(ParallelPlan, RefusesSeveralInputs) {
  for (const std::string_view relation : {"Outer", "Inner", "Member", "child"}) {
    const std::string other = R"({"Node Type": "Seq Scan", "Parent Relationship": ")" + std::string(relation) + "\"}";
    EXPECT_FALSE(check_plan(plan(above("Result", scan() + "," + other)), {0, 1})) << relation;
    EXPECT_FALSE(check_plan(plan(above("Result", other + "," + scan())), {0, 1})) << relation;
  }
}

TEST(ParallelPlan, RefusesOtherScans) {
  for (const std::string_view node : {"Seq Scan", "Index Scan", "Tid Scan", "Result", "CTE Scan", "Append"}) {
    const auto table = check_plan(plan(R"({"Node Type": ")" + std::string(node) + R"("})"), {0, 1});
    ASSERT_FALSE(table);
    EXPECT_TRUE(table.error().contains(node)) << table.error();
  }
  // The main path is the one without sub-plans.
  EXPECT_FALSE(
      check_plan(plan(R"({"Node Type": "Result", "Plans": [{"Node Type": "Tid Range Scan", "Schema": "public",)"
                      R"( "Relation Name": "films", "Parent Relationship": "InitPlan",)"
                      R"j( "TID Cond": "((ctid >= $1) AND (ctid < $2))"}]})j"),
                 {0, 1}));
}

TEST(ParallelPlan, RefusesOtherRanges) {
  for (const std::string_view condition :
       {"(ctid >= $1)", "(ctid < $2)", "((ctid >= $2) AND (ctid < $1))", "((ctid >= $1) AND (ctid < $20))",
        "((ctid >= $10) AND (ctid < $2))", "((ctid < $1) AND (ctid >= $2))", ""}) {
    EXPECT_FALSE(check_plan(plan(scan(condition)), {0, 1})) << condition;
  }
}

TEST(ParallelPlan, RefusesWhatIsNoPlan) {
  std::string deep = scan();
  for (int i = 0; i < 100; ++i) deep = above("Result", deep);
  for (const std::string& json :
       {std::string(), std::string("[]"), std::string("{}"), std::string("[{}]"), plan("7"), plan("{}"),
        plan(R"({"Node Type": 7})"), plan(deep), std::string("[{\"Plan\": {"),
        plan(R"j({"Node Type": "Tid Range Scan", "TID Cond": "((ctid >= $1) AND (ctid < $2))"})j")}) {
    EXPECT_FALSE(check_plan(json, {0, 1})) << json;
  }
}

}  // namespace
}  // namespace sluice::sql::postgres
