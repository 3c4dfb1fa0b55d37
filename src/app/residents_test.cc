#include "app/residents.h"

#include <string>

#include <gtest/gtest.h>

#include "app/cli.h"
#include "app/prepared_for_tests.h"

namespace sluice::app {
namespace {

using FirstResidents = ResidentsOfSqlite;

constexpr const char* plain = "query = \"SELECT id, name, at FROM users ORDER BY id\"\nkey = \"id\"\n";

TEST_F(FirstResidents, AreLoadedBeforeAnybodyIsServed) {
  const auto plan = prepared(plain);
  ASSERT_TRUE(plan) << plan.error().text;
  const auto loads = load_residents(**plan);
  ASSERT_TRUE(loads) << loads.error().text;
  ASSERT_EQ(loads->editions.size(), 1u);
  EXPECT_EQ(loads->editions[0].table->size(), 2u);
  EXPECT_FALSE(loads->editions[0].failing);
  EXPECT_EQ(loads->editions[0].checked, loads->marks[0].loaded);
  EXPECT_FALSE(loads->marks[0].probe) << "it is not refreshed";
  EXPECT_FALSE(loads->marks[0].since.known());
}

// What refreshing goes on from: what is committed while the query runs is found the next time.
TEST_F(FirstResidents, SayWhereRefreshingGoesOn) {
  const auto plan = prepared(std::string(plain) +
                             "[resident.refresh]\nevery = \"1s\"\nversion = \"at\"\n"
                             "changes = \"SELECT * FROM users WHERE at >= :since\"\n");
  ASSERT_TRUE(plan) << plan.error().text;
  const auto loads = load_residents(**plan);
  ASSERT_TRUE(loads) << loads.error().text;
  ASSERT_TRUE(loads->marks[0].probe);
  EXPECT_TRUE(loads->marks[0].version);
  ASSERT_TRUE(loads->marks[0].since.known());
  EXPECT_EQ(loads->marks[0].since.argument().text, "7");
}

TEST_F(FirstResidents, WithoutThemThereIsNoStart) {
  const auto plan = prepared(plain);
  ASSERT_TRUE(plan) << plan.error().text;
  run("DROP TABLE users");
  const auto loads = load_residents(**plan);
  ASSERT_FALSE(loads);
  EXPECT_EQ(loads.error().exit_code, exit_failure);
  EXPECT_TRUE(loads.error().text.starts_with("sluice: resident \"users\": no such table: users")) << loads.error().text;
}

TEST_F(FirstResidents, NoTablesAreNoWork) {
  const auto loads = load_residents(Plan{});
  ASSERT_TRUE(loads);
  EXPECT_TRUE(loads->editions.empty());
}

}  // namespace
}  // namespace sluice::app
