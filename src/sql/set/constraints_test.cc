#include "sql/set/constraints.h"

#include <gtest/gtest.h>

namespace sluice::sql {
namespace {

using Names = std::vector<std::string>;

TEST(Constraints, NamesInAnExpression) {
  EXPECT_EQ(names_in("score <= 10"), (Names{"score"}));
  EXPECT_EQ(names_in("length(\"the \"\"name\"\"\") > 2 AND [a b] <> 'it''s x' -- note\n OR `c` /* d */ = 1"),
            (Names{"length", "the \"name\"", "AND", "a b", "OR", "c"}));
  EXPECT_EQ(names_in("'never ends"), Names{});
  EXPECT_EQ(names_in("a /* never ends"), (Names{"a"}));
}

TEST(Constraints, ChecksThatHaveANameAreFound) {
  const auto checks = named_checks(
      "p",
      "CREATE TABLE p (id INTEGER PRIMARY KEY, price REAL CONSTRAINT p_price_check CHECK (price > (0)), "
      "name TEXT CONSTRAINT named NOT NULL CHECK (name <> ''), note TEXT DEFAULT 'CONSTRAINT x CHECK (y)', "
      "Constraint \"two of them\" check(price < 10 OR name = 'dear'), CONSTRAINT k UNIQUE (name))");
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[0].table, "p");
  EXPECT_EQ(checks[0].name, "p_price_check");
  EXPECT_EQ(checks[0].columns, (Names{"price"}));
  EXPECT_EQ(checks[1].name, "two of them");
  EXPECT_EQ(checks[1].columns, (Names{"price", "OR", "name"}));
  EXPECT_EQ(named_checks("p", "CREATE TABLE p (a CONSTRAINT b CHECK (c").size(), 1u);
  EXPECT_TRUE(named_checks("p", "CREATE TABLE p (a CONSTRAINT").empty());
}

TEST(Constraints, OneOfSeveralTablesIsMeantByItsName) {
  const Constraints known(
      {{"a", "positive", {"x"}}, {"b", "positive", {"y"}}, {"c", "same", {"z"}}, {"d", "same", {"z"}}});
  EXPECT_EQ(known.columns_of("a", "positive").front(), "x");
  EXPECT_TRUE(known.columns_of("", "positive").empty()) << "two tables have it, of different columns";
  EXPECT_EQ(known.columns_of("", "same").front(), "z");
  EXPECT_TRUE(known.columns_of("a", "other").empty());
  const BrokenRule told{.constraint = "positive", .table = "a", .columns = {"own"}, .parameter = 0};
  EXPECT_EQ(broken_columns(told, &known).front(), "own");
  EXPECT_TRUE(broken_columns({.constraint = "positive", .table = "a", .columns = {}, .parameter = 0}, nullptr).empty());
}

}  // namespace
}  // namespace sluice::sql
