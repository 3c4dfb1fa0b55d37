#include <string>

#include <gtest/gtest.h>

#include "app/commands/exit_code.h"
#include "app/prepare/prepare.h"
#include "app/prepare/prepared_for_tests.h"

namespace sluice::app {
namespace {

class PrepareResident : public ResidentsOfSqlite {
 protected:
  // The first line of the errors.
  std::string refusal(const std::string& keys) {
    const auto plan = prepared(keys);
    if (plan) return "none";
    EXPECT_EQ(plan.error().exit_code, exit_configuration);
    return plan.error().text.substr(0, plan.error().text.find('\n'));
  }
};

TEST_F(PrepareResident, MakesAPlan) {
  const auto plan = prepared(
      "query = \"SELECT id, name, roles, at FROM users ORDER BY id\"\nkey = \"id\"\nindex = [\"roles\", \"name\"]\n"
      "csv = true\nstale_after = \"1m\"\ntimeout = \"2s\"\nmemory = \"1MiB\"\ncache = \"2MiB\"\ncache_control = "
      "\"no-cache\"\n"
      "[resident.refresh]\nevery = \"1s\"\nchanges = \"SELECT * FROM users WHERE at >= :since\"\nversion = \"at\"\n"
      "deleted = \"gone\"\n");
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ((*plan)->all<Plan::Resident>().size(), 1u);
  const api::resident::Plan& made = *(*plan)->all<Plan::Resident>()[0]->plan;
  EXPECT_EQ(made.name, "users");
  EXPECT_EQ(made.shape.key, "id");
  EXPECT_EQ(made.shape.index, (std::vector<std::string>{"roles", "name"}));
  EXPECT_TRUE(made.shape.csv);
  EXPECT_EQ(made.shape.memory_limit, 1u << 20);
  EXPECT_EQ(made.cache, 2u << 20);
  EXPECT_EQ(made.cache_control, "no-cache");
  EXPECT_EQ(made.stale_after, 1min);
  EXPECT_EQ(made.timeout, 2s);
  EXPECT_EQ(made.statement.columns.size(), 4u);
  ASSERT_TRUE(made.changes);
  EXPECT_EQ(made.changes->shape.version, "at");
  EXPECT_EQ(made.changes->shape.deleted, "gone");
}

TEST_F(PrepareResident, ComplaintsStandWhereTheNameDoes) {
  const std::string query = "query = \"SELECT id, name, roles, at FROM users\"\n";
  EXPECT_EQ(refusal("query = \"SELECT id FROM nowhere\"\n"),
            "a.toml:5:9: error: resident \"users\": no such table: nowhere");
  EXPECT_EQ(refusal("query = \"DELETE FROM users RETURNING id\"\n"),
            "a.toml:5:9: error: resident \"users\": the statement writes, where only reading is allowed");
  EXPECT_EQ(refusal("query = \"SELECT id FROM users WHERE id > :id\"\n"),
            "a.toml:5:9: error: resident \"users\": the query has a parameter, :id");
  EXPECT_EQ(refusal("query = \"SELECT id, id FROM users\"\n"),
            "a.toml:5:9: error: resident \"users\": two columns are called \"id\"");
  EXPECT_EQ(refusal(query + "key = \"nothing\"\n"),
            "a.toml:6:7: error: resident \"users\": key \"nothing\" is no column of the query");
  EXPECT_EQ(refusal(query + "key = \"roles\"\n"),
            "a.toml:6:7: error: resident \"users\": key \"roles\" holds several values");
  EXPECT_EQ(refusal(query + "index = [\"id\", \"rolls\"]\n"),
            "a.toml:6:16: error: resident \"users\": index \"rolls\" is no column of the query");
  EXPECT_EQ(
      refusal("query = \"SELECT id AS sort FROM users\"\nindex = [\"sort\"]\n"),
      "a.toml:6:10: error: resident \"users\": index \"sort\": a parameter of that name means something else; call the "
      "column otherwise (AS)");
}

TEST_F(PrepareResident, ChangesGiveWhatTheQueryGives) {
  const auto changes = [&](const std::string& statement, const std::string& more = "version = \"at\"\n") {
    return refusal(
        "query = \"SELECT id, name, at FROM users\"\nkey = \"id\"\n[resident.refresh]\nevery = \"1s\"\nchanges = \"" +
        statement + "\"\n" + more);
  };
  EXPECT_EQ(changes("SELECT * FROM users WHERE at >= :since"), "none");
  EXPECT_EQ(changes("SELECT * FROM users"),
            "a.toml:9:11: error: resident \"users\": \"changes\" has one parameter, :since");
  EXPECT_EQ(changes("SELECT * FROM users WHERE at >= :from"),
            "a.toml:9:11: error: resident \"users\": \"changes\" has one parameter, :since");
  EXPECT_EQ(changes("SELECT id, at FROM users WHERE at >= :since"),
            "a.toml:9:11: error: resident \"users\": the changes have no column \"name\", as the query has");
  EXPECT_EQ(
      changes("SELECT * FROM users WHERE at >= :since", "version = \"gone\"\n"),
      "a.toml:9:11: error: resident \"users\": version \"gone\" is no column of the query, and a load must know the "
      "greatest");
  EXPECT_EQ(changes("SELECT * FROM nowhere WHERE at >= :since"),
            "a.toml:9:11: error: resident \"users\": no such table: nowhere");
}

}  // namespace
}  // namespace sluice::app
