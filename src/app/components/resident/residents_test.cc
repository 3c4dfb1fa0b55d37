#include "app/components/resident/residents.h"

#include <string>

#include <gtest/gtest.h>

#include "app/commands/exit_code.h"
#include "app/prepare/prepared_for_tests.h"

namespace sluice::app {
namespace {

using FirstResidents = ResidentsOfSqlite;

constexpr const char* plain = "query = \"SELECT id, name, at FROM users ORDER BY id\"\nkey = \"id\"\n";

TEST_F(FirstResidents, AreLoadedBeforeAnybodyIsServed) {
  const auto plan = prepared(plain);
  ASSERT_TRUE(plan) << plan.error().text;
  const auto loads = load_residents(**plan, nullptr, true);
  ASSERT_TRUE(loads) << loads.error().text;
  ASSERT_EQ((*plan)->all<Plan::Resident>().size(), 1u);
  EXPECT_EQ((*plan)->all<Plan::Resident>()[0]->first.table->size(), 2u);
  EXPECT_FALSE((*plan)->all<Plan::Resident>()[0]->first.failing);
  EXPECT_EQ((*plan)->all<Plan::Resident>()[0]->first.checked, (*plan)->all<Plan::Resident>()[0]->mark.loaded);
  EXPECT_FALSE((*plan)->all<Plan::Resident>()[0]->mark.probe) << "it is not refreshed";
  EXPECT_FALSE((*plan)->all<Plan::Resident>()[0]->mark.since.known());
}

// Rows that are committed while the first query runs are found by the next refresh.
TEST_F(FirstResidents, SayWhereRefreshingGoesOn) {
  const auto plan = prepared(std::string(plain) +
                             "[resident.refresh]\nevery = \"1s\"\nversion = \"at\"\n"
                             "changes = \"SELECT * FROM users WHERE at >= :since\"\n");
  ASSERT_TRUE(plan) << plan.error().text;
  const auto loads = load_residents(**plan, nullptr, true);
  ASSERT_TRUE(loads) << loads.error().text;
  ASSERT_TRUE((*plan)->all<Plan::Resident>()[0]->mark.probe);
  EXPECT_TRUE((*plan)->all<Plan::Resident>()[0]->mark.version);
  ASSERT_TRUE((*plan)->all<Plan::Resident>()[0]->mark.since.known());
  EXPECT_EQ((*plan)->all<Plan::Resident>()[0]->mark.since.argument().text, "7");
}

TEST_F(FirstResidents, WithoutThemThereIsNoStart) {
  const auto plan = prepared(plain);
  ASSERT_TRUE(plan) << plan.error().text;
  run("DROP TABLE users");
  const auto loads = load_residents(**plan, nullptr, true);
  ASSERT_FALSE(loads);
  EXPECT_EQ(loads.error().exit_code, exit_failure);
  EXPECT_TRUE(loads.error().text.starts_with("a.toml:5:9: error: resident \"users\": no such table: users"))
      << loads.error().text;
}

TEST_F(FirstResidents, NoTablesAreNoWork) {
  const auto loads = load_residents(Plan{}, nullptr, true);
  ASSERT_TRUE(loads);
}

}  // namespace
}  // namespace sluice::app
