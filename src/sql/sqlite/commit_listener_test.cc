#include "sql/sqlite/commit_listener.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sql/sqlite/test_support.h"

namespace sluice::sql {
namespace {

using sqlite::testing::Loop;
using sqlite::testing::TempFile;
using sqlite::testing::texts;

class CommitListenerTest : public testing::Test, public ChangeSink {
 protected:
  CommitListenerTest()
      : file(
            "CREATE TABLE Films(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);"
            "CREATE TABLE tags(film INT REFERENCES Films(id) ON DELETE CASCADE, tag TEXT, PRIMARY KEY (film, tag))"
            " WITHOUT ROWID;"
            "CREATE TABLE log(text TEXT); CREATE TABLE other(n INT);"
            "CREATE TRIGGER told AFTER UPDATE ON Films BEGIN INSERT INTO log VALUES (new.name); END;") {}
  void SetUp() override {
    auto opened = SqliteWriter::open(file.options);
    ASSERT_TRUE(opened) << opened.error().message;
    writer = *std::move(opened);
    listener = std::make_unique<CommitListener>(
        *writer, loop.mailbox,
        std::vector<Topic>{{.channel = {}, .tables = {"films", "tags"}}, {.channel = {}, .tables = {"LOG"}}}, *this);
    tasks.spawn(listener->run());
  }
  void TearDown() override {
    tasks.cancel();
    listener.reset();
    writer.reset();
  }

  core::Task<void> changed(std::span<const Change> changes) override {
    for (const Change& change : changes) told.push_back(std::to_string(change.topic) + " " + std::string(change.text));
    co_return;
  }
  core::Task<void> resumed() override {
    ADD_FAILURE() << "SQLite has no gaps";
    co_return;
  }

  Statement describe(std::string_view sql) {
    auto statement = writer->describe(sql, {});
    EXPECT_TRUE(statement) << statement.error().message;
    if (!statement) return {};
    ids->give(*statement);
    return *std::move(statement);
  }
  Result<Written> execute(std::string_view sql, std::vector<Argument> arguments = {}) {
    return loop.run(writer->execute(*loop.reactor, loop.mailbox, describe(sql), arguments, {}));
  }
  // Returns what was reported since the last call. The letter was posted before the answer, which has arrived.
  std::vector<std::string> news() { return std::exchange(told, {}); }
  using News = std::vector<std::string>;

  TempFile file;
  Loop loop;
  std::unique_ptr<SqliteWriter> writer;
  core::TaskGroup tasks;
  std::unique_ptr<CommitListener> listener;
  std::vector<std::string> told;
  std::shared_ptr<StatementIds> ids = std::make_shared<StatementIds>();
};

TEST_F(CommitListenerTest, TellsWhichTablesACommitHasChanged) {
  ASSERT_TRUE(execute("INSERT INTO films VALUES (1, 'a'), (2, 'b')"));
  EXPECT_EQ(news(), News{R"(0 {"tables":["films"]})"});
  ASSERT_TRUE(execute("INSERT INTO tags VALUES (1, 'x')"));
  EXPECT_EQ(news(), News{R"(0 {"tables":["tags"]})"}) << "a table without row ids";
  ASSERT_TRUE(execute("INSERT INTO other VALUES (1)"));
  EXPECT_EQ(news(), News{});
  ASSERT_TRUE(execute("UPDATE films SET name = 'c' WHERE id = 2"));
  EXPECT_EQ(news(), (News{R"(0 {"tables":["films"]})", R"(1 {"tables":["LOG"]})"})) << "by a trigger";
  ASSERT_TRUE(execute("DELETE FROM films WHERE id = 1"));
  EXPECT_EQ(news(), News{R"(0 {"tables":["films","tags"]})"}) << "by a foreign key";
  ASSERT_TRUE(execute("DELETE FROM log"));
  EXPECT_EQ(news(), News{R"(1 {"tables":["LOG"]})"}) << "truncated, without a look at its rows";
}

TEST_F(CommitListenerTest, WhatChangesNothingOrIsRolledBackIsNotTold) {
  ASSERT_TRUE(execute("INSERT INTO films VALUES (1, 'a')"));
  (void)news();
  ASSERT_TRUE(execute("UPDATE films SET name = 'c' WHERE id = 7"));
  ASSERT_TRUE(execute("INSERT INTO films VALUES (1, 'b') ON CONFLICT DO NOTHING"));
  EXPECT_FALSE(execute("INSERT INTO films VALUES (5, 'e'), (1, 'b')"));
  EXPECT_EQ(news(), News{});
  {
    const auto transaction = writer->begin(*loop.reactor, loop.mailbox, {});
    const auto insert = describe("INSERT INTO tags VALUES (1, :tag)");
    ASSERT_TRUE(loop.run(transaction->execute(insert, texts({"x"}))));
    EXPECT_EQ(news(), News{}) << "not before the commit";
  }
  ASSERT_TRUE(execute("INSERT INTO films VALUES (2, 'b')"));
  EXPECT_EQ(news(), News{R"(0 {"tables":["films"]})"}) << "and nothing of the one before, which was rolled back";

  const auto transaction = writer->begin(*loop.reactor, loop.mailbox, {});
  const auto insert = describe("INSERT INTO tags VALUES (1, :tag)");
  ASSERT_TRUE(loop.run(transaction->execute(insert, texts({"x"}))));
  ASSERT_TRUE(loop.run(transaction->commit()));
  EXPECT_EQ(news(), News{R"(0 {"tables":["tags"]})"});
}

TEST_F(CommitListenerTest, AStatementThatIsCompiledAnewIsLookedAtAnew) {
  const auto insert = describe("INSERT INTO other VALUES (1)");
  ASSERT_TRUE(loop.run(writer->execute(*loop.reactor, loop.mailbox, insert, {}, {})));
  file.execute("CREATE TRIGGER later AFTER INSERT ON other BEGIN INSERT INTO log VALUES ('x'); END");
  EXPECT_EQ(news(), News{});
  ASSERT_TRUE(loop.run(writer->execute(*loop.reactor, loop.mailbox, insert, {}, {})));
  EXPECT_EQ(news(), News{R"(1 {"tables":["LOG"]})"});
}

TEST_F(CommitListenerTest, AllListenersHearAllWritersOfTheFile) {
  auto opened = SqliteWriter::open(file.options, writer->observers());
  ASSERT_TRUE(opened) << opened.error().message;
  auto other = std::make_unique<CommitListener>(
      **opened, loop.mailbox, std::vector<Topic>{{}, {}, {.channel = {}, .tables = {"films"}}}, *this);
  core::TaskGroup others;
  others.spawn(other->run());
  ASSERT_TRUE(execute("INSERT INTO films VALUES (1, 'a')"));
  std::ranges::sort(told);
  EXPECT_EQ(news(), (News{R"(0 {"tables":["films"]})", R"(2 {"tables":["films"]})"}));
  auto insert = (*opened)->describe("INSERT INTO films VALUES (2, 'b')", {});
  ASSERT_TRUE(insert) << insert.error().message;
  ids->give(*insert);
  ASSERT_TRUE(loop.run((*opened)->execute(*loop.reactor, loop.mailbox, *insert, {}, {})));
  std::ranges::sort(told);
  EXPECT_EQ(news(), (News{R"(0 {"tables":["films"]})", R"(2 {"tables":["films"]})"}));
  others.cancel();
  other.reset();
  opened->reset();
  ASSERT_TRUE(execute("INSERT INTO films VALUES (3, 'c')"));
  EXPECT_EQ(news(), News{R"(0 {"tables":["films"]})"});
}

TEST_F(CommitListenerTest, HearsOfATransactionThatHadBegunBefore) {
  const auto transaction = writer->begin(*loop.reactor, loop.mailbox, {});
  ASSERT_TRUE(loop.run(transaction->execute(describe("INSERT INTO films VALUES (1, :name)"), texts({"x"}))));
  auto late = std::make_unique<CommitListener>(*writer, loop.mailbox,
                                               std::vector<Topic>{{}, {}, {.channel = {}, .tables = {"films"}}}, *this);
  tasks.cancel();
  listener.reset();
  tasks.spawn(late->run());
  ASSERT_TRUE(loop.run(transaction->commit()));
  EXPECT_EQ(news(), News{R"(2 {"tables":["films"]})"});
  tasks.cancel();
}

TEST_F(CommitListenerTest, CommitsWhileNobodyListensAreOne) {
  tasks.cancel();
  ASSERT_TRUE(execute("INSERT INTO films VALUES (1, 'a')"));
  ASSERT_TRUE(execute("INSERT INTO tags VALUES (1, 'x')"));
  EXPECT_EQ(news(), News{});
  tasks.spawn(listener->run());
  EXPECT_EQ(news(), News{R"(0 {"tables":["films","tags"]})"});
}

}  // namespace
}  // namespace sluice::sql
