#include "api/batch/joint_database.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/writing_fixture.h"

namespace sluice::api::batch {
namespace {

using Step = api::testing::FakeDatabase::Step;

class JointDatabaseTest : public ::testing::Test {
 public:
  static sql::Statement statement(std::string text, std::vector<sql::Column> columns = {}) {
    sql::Statement made;
    made.text = std::move(text);
    made.parameters = {{"a", {}}};
    made.columns = std::move(columns);
    return made;
  }
  // The result of a task that the fake database completes immediately.
  template <class T>
  static T run(core::Task<T> task) {
    std::optional<T> result;
    core::TaskGroup tasks;
    tasks.spawn([](core::Task<T> inner, std::optional<T>& into) -> core::Task<void> {
      into.emplace(co_await std::move(inner));
    }(std::move(task), result));
    return std::move(result).value();
  }
  static core::Task<sql::Result<std::string>> read(sql::Database& database, const sql::Statement& statement,
                                                   std::string value, std::vector<sql::Setting> settings) {
    const sql::Argument argument{.text = value};
    auto asking = database.query(statement, {&argument, 1}, {.deadline = never, .settings = settings});
    // The database must have copied both.
    value.assign(value.size(), '?');
    settings.clear();
    auto cursor = co_await std::move(asking);
    if (!cursor) co_return std::unexpected(cursor.error());
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    EXPECT_TRUE(block->last);
    std::string rows;
    for (std::size_t i = 0; i < block->rows; ++i) rows += std::string(block->row(i)[0].view()) + ";";
    co_return rows;
  }
  sql::Result<std::string> ask(std::string value, std::vector<sql::Setting> settings = {}) {
    return run(read(joint, select, std::move(value), std::move(settings)));
  }
  sql::Result<sql::Written> write(std::string_view value, std::vector<sql::Setting> settings = {},
                                  std::size_t most_rows = SIZE_MAX) {
    const auto part = joint.begin({.deadline = never, .settings = settings});
    const sql::Argument argument{.text = value};
    return run(part->finish(insert, {&argument, 1}, most_rows));
  }
  std::string log() { return std::exchange(inner.log, {}); }

  const sql::Statement insert = statement("insert", {{"n", {}, 0}});
  const sql::Statement select = statement("select", {{"n", {}, 0}});
  api::testing::FakeDatabase inner;
  JointDatabase joint{inner};
};

TEST_F(JointDatabaseTest, AllIsOneTransaction) {
  joint.open({});
  EXPECT_EQ(log(), "") << "nothing is sent before there is a statement";
  inner.steps = {{.rows = {}, .changes = 1, .error = {}}, {.rows = {{"7"}, {"8"}}, .changes = 0, .error = {}}};
  EXPECT_TRUE(write("a"));
  EXPECT_EQ(ask("b").value(), "7;8;");
  {
    const auto part = joint.begin({});
    const sql::Argument argument{.text = "c"};
    EXPECT_EQ(run(part->execute(insert, {&argument, 1}))->changes, 1u);
    EXPECT_TRUE(run(part->commit())) << "a part's end is the whole's matter";
  }
  EXPECT_EQ(log(), "begin\nrenew\ninsert a\nrenew reading\nselect b\nrenew\ninsert c\n");
  EXPECT_TRUE(run(joint.commit()));
  EXPECT_EQ(log(), "committed\n");
  EXPECT_FALSE(joint.failure());
  joint.close();
  EXPECT_EQ(log(), "");
}

TEST_F(JointDatabaseTest, WhatIsNotCommittedIsRolledBack) {
  joint.open({.deadline = never, .isolation = sql::Isolation::serializable, .settings = {}});
  EXPECT_TRUE(write("a"));
  joint.open({});
  EXPECT_EQ(log(), "begin serializable\nrenew\ninsert a\ngone\n");
  EXPECT_TRUE(run(joint.commit())) << "of nothing";
  EXPECT_EQ(log(), "");
  EXPECT_TRUE(write("b"));
  joint.close();
  EXPECT_EQ(log(), "begin\nrenew\ninsert b\ngone\n");
}

TEST_F(JointDatabaseTest, AnErrorEndsAllOfIt) {
  joint.open({});
  const sql::Error conflict{sql::Failure::conflict, "40001", "somebody", 0};
  inner.steps = {{.rows = {}, .changes = 1, .error = {}}, {.rows = {}, .changes = 0, .error = conflict}};
  EXPECT_TRUE(write("a"));
  EXPECT_EQ(write("b").error().sqlstate, "40001");
  ASSERT_TRUE(joint.failure());
  EXPECT_EQ(joint.failure()->failure, sql::Failure::conflict);
  log();
  EXPECT_EQ(write("c").error().sqlstate, "40001");
  EXPECT_EQ(ask("d").error().sqlstate, "40001");
  EXPECT_EQ(log(), "") << "who asks once more hears the same, and the database nothing";
  joint.open({});
  EXPECT_FALSE(joint.failure());
  EXPECT_TRUE(write("a"));
  EXPECT_EQ(log(), "gone\nbegin\nrenew\ninsert a\n");
}

TEST_F(JointDatabaseTest, TooManyRowsAndACommitThatFails) {
  joint.open({});
  inner.steps = {{.rows = {{"1"}, {"2"}}, .changes = 2, .error = {}}};
  EXPECT_EQ(write("a", {}, 1).error().failure, sql::Failure::statement);
  EXPECT_TRUE(joint.failure()) << "the statement has been done, so nothing may be committed";
  joint.open({});
  EXPECT_TRUE(write("a", {}, 1));
  inner.commit_error = sql::Error{sql::Failure::conflict, "40001", "somebody", 0};
  EXPECT_FALSE(run(joint.commit()));
  EXPECT_EQ(joint.failure()->sqlstate, "40001");
}

TEST_F(JointDatabaseTest, SettingsAreThoseOfEachStatement) {
  joint.open({});
  EXPECT_TRUE(ask("a", {{"role", "ada"}, {"path", "/1"}}));
  EXPECT_EQ(log(), "begin\nrenew reading role=ada path=/1\nselect a\n");
  EXPECT_TRUE(write("b", {{"role", "ada"}, {"path", "/2"}}));
  EXPECT_EQ(log(), "renew role=ada path=/2\ninsert b\n") << "the same ones too: what came before may have changed them";
  {
    const std::vector<sql::Setting> settings{{"role", "bob"}};
    const auto part = joint.begin({.deadline = never, .settings = settings});
    const sql::Argument argument{.text = "c"};
    EXPECT_TRUE(run(part->execute(insert, {&argument, 1})));
    EXPECT_TRUE(run(part->finish(insert, {&argument, 1}, SIZE_MAX)));
  }
  EXPECT_EQ(log(), "renew role=bob\ninsert c\ninsert c\n") << "the statements of one call share them";
  joint.open({});
  EXPECT_TRUE(write("e", {{"role", "ada"}}));
  EXPECT_EQ(log(), "gone\nbegin\nrenew role=ada\ninsert e\n");
  joint.open({.deadline = never, .settings = {}, .reads_only = true});
  EXPECT_TRUE(ask("f"));
  EXPECT_EQ(log(), "gone\nbegin\nrenew\nselect f\n") << "all of such a transaction only reads";
}

TEST_F(JointDatabaseTest, SetsAreRefused) {
  joint.open({});
  const auto staging = joint.stage({}, {});
  EXPECT_EQ(run(staging->add({}, {})).error().failure, sql::Failure::statement);
  EXPECT_EQ(run(staging->apply({}, {})).error().failure, sql::Failure::statement);
  EXPECT_EQ(log(), "");
}

}  // namespace
}  // namespace sluice::api::batch
