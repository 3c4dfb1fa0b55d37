#include "sql/sqlite/writer.h"

#include <atomic>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "sql/sqlite/database.h"
#include "sql/sqlite/test_support.h"

namespace sluice::sql {
namespace {

using sqlite::testing::add_rows;
using sqlite::testing::Loop;
using sqlite::testing::Rows;
using sqlite::testing::TempFile;
using sqlite::testing::texts;

class SqliteWriterTest : public ::testing::Test {
 protected:
  SqliteWriterTest()
      : file(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);"
            "CREATE TABLE parents(id INTEGER PRIMARY KEY);"
            "CREATE TABLE children(id INTEGER PRIMARY KEY,"
            " parent INT REFERENCES parents(id) DEFERRABLE INITIALLY DEFERRED);") {}

  void open() {
    auto opened = SqliteWriter::open(file.options);
    ASSERT_TRUE(opened) << opened.error().message;
    writer = *std::move(opened);
  }
  Statement describe(std::string_view text) {
    if (!writer) open();
    auto described = writer->describe(text, {});
    EXPECT_TRUE(described) << described.error().message;
    if (described) ids->give(*described);
    return described ? *std::move(described) : Statement{};
  }
  Result<Written> execute(const Statement& statement, std::vector<Argument> arguments, Instant deadline = never) {
    return loop.run(writer->execute(*loop.reactor, loop.mailbox, statement, arguments, {deadline}));
  }
  // Reads through another connection, like another program.
  std::string value(std::string_view sql) {
    sqlite3* database = nullptr;
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_open(file.options.path.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_prepare_v2(database, std::string(sql).c_str(), -1, &statement, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    std::string result = text == nullptr ? "null" : text;
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return result;
  }

  struct Outcome {
    std::vector<std::optional<Result<Written>>> results;
    std::size_t done = 0;
  };
  static core::Task<void> write(SqliteWriter& writer, Loop& loop, const Statement& statement,
                                std::vector<Argument> arguments, Outcome& outcome, std::size_t index,
                                Instant deadline = never) {
    outcome.results[index] = co_await writer.execute(*loop.reactor, loop.mailbox, statement, arguments, {deadline});
    ++outcome.done;
  }
  // Blocks the writer's thread at its BEGIN, so that later requests stay in the queue.
  class HoldWriter {
   public:
    explicit HoldWriter(const TempFile& held) {
      EXPECT_EQ(sqlite3_open(held.options.path.c_str(), &database_), SQLITE_OK);
      EXPECT_EQ(sqlite3_exec(database_, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
    }
    ~HoldWriter() { release(); }
    void release() {
      if (database_ == nullptr) return;
      sqlite3_exec(database_, "COMMIT", nullptr, nullptr, nullptr);
      sqlite3_close(database_);
      database_ = nullptr;
    }

   private:
    sqlite3* database_ = nullptr;
  };

  TempFile file;
  Loop loop;
  std::unique_ptr<SqliteWriter> writer;
  std::shared_ptr<StatementIds> ids = std::make_shared<StatementIds>();
};

TEST_F(SqliteWriterTest, Writes) {
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  auto written = execute(insert, texts({"a"}));
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(written->changes, 1);
  EXPECT_EQ(written->rows.rows, 0u);
  EXPECT_EQ(execute(insert, texts({"b"}))->changes, 1);
  const auto update = describe("UPDATE t SET name = name || '!' WHERE id >= :id");
  written = execute(update, texts({"1"}));
  EXPECT_EQ(written->changes, 2);
  EXPECT_EQ(execute(update, texts({"9"}))->changes, 0);
  EXPECT_EQ(value("SELECT group_concat(name) FROM t"), "a!,b!");
  EXPECT_EQ(execute(describe("DELETE FROM t"), {})->changes, 2);
  EXPECT_EQ(execute(describe("CREATE TABLE made(x)"), {})->changes, 0);
  EXPECT_EQ(writer->commits(), 6u);
}

TEST_F(SqliteWriterTest, ReturnsRows) {
  const auto insert = describe("INSERT INTO t(name) VALUES(:a), (:b) RETURNING id, name, 1.0");
  ASSERT_EQ(insert.columns.size(), 3u);
  const auto written = execute(insert, texts({"x", "y"}));
  ASSERT_TRUE(written);
  Rows rows;
  add_rows(rows, written->rows);
  EXPECT_TRUE(written->rows.last);
  EXPECT_EQ(rows, (Rows{{"1", "'x'", "1.0"}, {"2", "'y'", "1.0"}}));
  EXPECT_EQ(written->changes, 2);
}

TEST_F(SqliteWriterTest, RefusesTooManyReturnedRows) {
  const auto insert = describe(
      "INSERT INTO t(name) WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 1000)"
      " SELECT 'n' || i FROM c RETURNING name");
  const auto transaction = writer->begin(*loop.reactor, loop.mailbox, {.settings = {}, .result_bytes = 1000});
  const auto written = loop.run(transaction->finish(insert, {}, SIZE_MAX));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().failure, Failure::too_large);
  EXPECT_EQ(value("SELECT count(*) FROM t"), "0");
}

TEST_F(SqliteWriterTest, Refuses) {
  open();
  for (const char* text : {"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT x", "RELEASE request", "ATTACH 'x' AS y",
                           "PRAGMA synchronous = 0", "INSERT INTO nowhere VALUES(1)", "INSERT INTO t VALUES(?1)"}) {
    const auto described = writer->describe(text, {});
    ASSERT_FALSE(described) << text;
    EXPECT_EQ(described.error().failure, Failure::statement);
  }
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  ASSERT_TRUE(execute(insert, texts({"a"})));
  const auto twice = execute(insert, texts({"a"}));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().failure, Failure::statement);
  EXPECT_EQ(twice.error().message, "UNIQUE constraint failed: t.name");
  const auto wrong = execute(describe("INSERT INTO t(id, name) VALUES(:id, 'x')"), texts({"abc"}));
  EXPECT_EQ(wrong.error().failure, Failure::bad_argument);
  const auto integer = execute(insert, {{"1x", ParameterType::integer}});
  EXPECT_EQ(integer.error().failure, Failure::bad_argument);
  EXPECT_EQ(value("SELECT count(*) FROM t"), "1");
}

TEST_F(SqliteWriterTest, OpensOnlyWhatMayBeWritten) {
  file.options.read_only = true;
  EXPECT_FALSE(SqliteWriter::open(file.options));
  file.options.read_only = false;
  file.options.path += ".missing";
  const auto missing = SqliteWriter::open(file.options);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "no such file: " + file.options.path);
}

// Queued requests share one commit; a request that fails among them is rolled back alone.
TEST_F(SqliteWriterTest, CommitsWhatHasGathered) {
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  // Inserts one row and then fails on its second.
  const auto half = describe("INSERT INTO t(name) VALUES('half'), (NULL)");
  Outcome outcome;
  outcome.results.resize(51);
  core::TaskGroup group;
  HoldWriter hold(file);
  group.spawn(write(*writer, loop, insert, texts({"first"}), outcome, 50));
  loop.until([&] { return writer->queued() == 0; });  // the thread is executing it
  for (std::size_t i = 0; i < 50; ++i) {
    if (i == 25) {
      group.spawn(write(*writer, loop, half, {}, outcome, i));
    } else {
      const std::string name = "n" + std::to_string(i);
      group.spawn(write(*writer, loop, insert, texts({name}), outcome, i));
    }
  }
  EXPECT_EQ(writer->queued(), 50u);
  EXPECT_EQ(outcome.done, 0u);
  hold.release();
  loop.until([&] { return outcome.done == 51; });
  EXPECT_EQ(writer->commits(), 2u);
  for (std::size_t i = 0; i < 51; ++i) EXPECT_EQ(outcome.results[i]->has_value(), i != 25) << i;
  EXPECT_EQ(outcome.results[25]->error().message, "NOT NULL constraint failed: t.name");
  EXPECT_EQ(value("SELECT count(*) FROM t"), "50");
  EXPECT_EQ(value("SELECT count(*) FROM t WHERE name = 'half'"), "0");
}

// ON CONFLICT ROLLBACK undoes the whole transaction; the other requests run again.
TEST_F(SqliteWriterTest, OthersSurviveARollback) {
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  const auto rollback = describe("INSERT OR ROLLBACK INTO t(name) VALUES(:name)");
  Outcome outcome;
  outcome.results.resize(6);
  core::TaskGroup group;
  HoldWriter hold(file);
  group.spawn(write(*writer, loop, insert, texts({"a"}), outcome, 0));
  loop.until([&] { return writer->queued() == 0; });
  group.spawn(write(*writer, loop, insert, texts({"b"}), outcome, 1));
  group.spawn(write(*writer, loop, rollback, texts({"b"}), outcome, 2));
  group.spawn(write(*writer, loop, insert, texts({"c"}), outcome, 3));
  group.spawn(write(*writer, loop, rollback, texts({"a"}), outcome, 4));
  group.spawn(write(*writer, loop, rollback, texts({"d"}), outcome, 5));
  hold.release();
  loop.until([&] { return outcome.done == 6; });
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(outcome.results[i]->has_value(), i != 2 && i != 4) << i;
  EXPECT_EQ(value("SELECT group_concat(name) FROM (SELECT name FROM t ORDER BY name)"), "a,b,c,d");
  EXPECT_EQ(outcome.results[5]->value().changes, 1);
}

// A deferred constraint fails at the commit. Only the request that violated it may fail.
TEST_F(SqliteWriterTest, OthersSurviveAFailedCommit) {
  const auto child = describe("INSERT INTO children(parent) VALUES(:parent)");
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  Outcome outcome;
  outcome.results.resize(4);
  core::TaskGroup group;
  HoldWriter hold(file);
  group.spawn(write(*writer, loop, insert, texts({"a"}), outcome, 0));
  loop.until([&] { return writer->queued() == 0; });
  group.spawn(write(*writer, loop, insert, texts({"b"}), outcome, 1));
  group.spawn(write(*writer, loop, child, texts({"77"}), outcome, 2));
  group.spawn(write(*writer, loop, insert, texts({"c"}), outcome, 3));
  hold.release();
  loop.until([&] { return outcome.done == 4; });
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(outcome.results[i]->has_value(), i != 2) << i;
  EXPECT_EQ(outcome.results[2]->error().message, "FOREIGN KEY constraint failed");
  EXPECT_EQ(value("SELECT count(*) FROM t"), "3");
  EXPECT_EQ(value("SELECT count(*) FROM children"), "0");
}

TEST_F(SqliteWriterTest, AWriteThatWaitsIsAnsweredAtItsDeadline) {
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  HoldWriter hold(file);
  Outcome outcome;
  outcome.results.resize(2);
  core::TaskGroup group;
  group.spawn(write(*writer, loop, insert, texts({"first"}), outcome, 0));
  loop.until([&] { return writer->queued() == 0; });
  const Instant deadline = loop.reactor->now() + std::chrono::milliseconds(20);
  group.spawn(write(*writer, loop, insert, texts({"second"}), outcome, 1, deadline));
  loop.until([&] { return outcome.done == 1; });
  ASSERT_TRUE(outcome.results[1]) << "the first one is not done yet";
  EXPECT_EQ(outcome.results[1]->error().failure, Failure::timed_out);
  EXPECT_EQ(writer->queued(), 0u);
  hold.release();
  loop.until([&] { return outcome.done == 2; });
  EXPECT_TRUE(*outcome.results[0]);
  EXPECT_EQ(value("SELECT group_concat(name) FROM t"), "first");
}

TEST_F(SqliteWriterTest, Deadlines) {
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  const auto forever = describe(
      "INSERT INTO t(name) WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c WHERE i < "
      "0");
  Outcome outcome;
  outcome.results.resize(3);
  core::TaskGroup group;
  HoldWriter hold(file);
  group.spawn(write(*writer, loop, insert, texts({"a"}), outcome, 0));
  loop.until([&] { return writer->queued() == 0; });
  group.spawn(write(*writer, loop, insert, texts({"b"}), outcome, 1));
  group.spawn(write(*writer, loop, forever, {}, outcome, 2, loop.reactor->now() + std::chrono::milliseconds(200)));
  hold.release();
  loop.until([&] { return outcome.done == 3; });
  EXPECT_TRUE(outcome.results[1]->has_value());
  ASSERT_FALSE(outcome.results[2]->has_value());
  EXPECT_EQ(outcome.results[2]->error().failure, Failure::timed_out);
  EXPECT_EQ(value("SELECT group_concat(name) FROM t"), "a,b");
  EXPECT_EQ(execute(insert, texts({"c"}), loop.reactor->now()).error().failure, Failure::timed_out);
  EXPECT_TRUE(execute(insert, texts({"d"})));
}

TEST_F(SqliteWriterTest, BusyAndBounded) {
  file.options.busy_timeout_ms = 50;
  file.options.write_queue = 2;
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  Outcome outcome;
  outcome.results.resize(4);
  core::TaskGroup group;
  HoldWriter hold(file);
  group.spawn(write(*writer, loop, insert, texts({"a"}), outcome, 0));
  loop.until([&] { return writer->queued() == 0; });
  for (std::size_t i = 1; i < 4; ++i) group.spawn(write(*writer, loop, insert, texts({"x"}), outcome, i));
  ASSERT_EQ(outcome.done, 1u);
  EXPECT_EQ(outcome.results[3]->error().failure, Failure::unavailable);
  EXPECT_EQ(outcome.results[3]->error().message, "too many writes are waiting");
  loop.until([&] { return outcome.done == 4; });
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(outcome.results[i]->error().failure, Failure::unavailable) << i;
  hold.release();
  EXPECT_TRUE(execute(insert, texts({"a"})));
}

TEST_F(SqliteWriterTest, AWithdrawnWriteIsNotWritten) {
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  Outcome outcome;
  outcome.results.resize(3);
  core::TaskGroup group;
  HoldWriter hold(file);
  group.spawn(write(*writer, loop, insert, texts({"a"}), outcome, 0));
  loop.until([&] { return writer->queued() == 0; });
  {
    core::TaskGroup gone;
    gone.spawn(write(*writer, loop, insert, texts({"b"}), outcome, 1));
    EXPECT_EQ(writer->queued(), 1u);
  }
  EXPECT_EQ(writer->queued(), 0u);
  group.spawn(write(*writer, loop, insert, texts({"c"}), outcome, 2));
  hold.release();
  loop.until([&] { return outcome.done == 2; });
  EXPECT_EQ(value("SELECT group_concat(name) FROM (SELECT name FROM t ORDER BY name)"), "a,c");
}

TEST_F(SqliteWriterTest, EndingWritesWhatIsQueued) {
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  Outcome outcome;
  outcome.results.resize(20);
  core::TaskGroup group;
  for (std::size_t i = 0; i < 20; ++i) {
    group.spawn(write(*writer, loop, insert, texts({"n" + std::to_string(i)}), outcome, i));
  }
  writer.reset();
  EXPECT_EQ(value("SELECT count(*) FROM t"), "20");
  loop.until([&] { return outcome.done == 20; });
  for (const auto& result : outcome.results) EXPECT_TRUE(result->has_value());
}

// Readers on two cores while the writer moves an amount between two rows. No reader sees it in both rows or in none.
TEST_F(SqliteWriterTest, ReadersSeeWholeTransactions) {
  file.execute(
      "CREATE TABLE accounts(id INTEGER PRIMARY KEY, amount INT); INSERT INTO accounts VALUES(1, 1000), (2, 0);");
  const auto move = describe("UPDATE accounts SET amount = amount + CASE id WHEN 1 THEN -1 ELSE 1 END");
  std::atomic<bool> ended{false};
  std::atomic<int> reads{0};
  const auto reader = [&] {
    Loop own;
    auto database = SqliteDatabase::open(file.options, *own.reactor, own.mailbox, own.threads);
    ASSERT_TRUE(database) << database.error().message;
    const auto one = own.run((*database)->prepare("SELECT amount FROM accounts WHERE id = :id", {}));
    const auto sum = own.run((*database)->prepare("SELECT sum(amount) FROM accounts", {}));
    ASSERT_TRUE(one && sum);
    const auto look_up = [&](std::string_view id) {
      const Argument argument{id};
      auto cursor = (*database)->query(*one, {&argument, 1}, {}).take();
      return cursor ? std::stoi(std::string((*cursor)->next().take()->row(0)[0].view())) : -1'000'000;
    };
    const auto total = [](SqliteDatabase& from, const Statement& statement) -> core::Task<std::string> {
      auto cursor = co_await from.query(statement, {}, {});
      if (!cursor) co_return cursor.error().message;
      auto block = co_await (*cursor)->next();
      co_return std::string(block->row(0)[0].view());
    };
    while (!ended.load()) {
      // Two look-ups of one turn share a snapshot.
      ASSERT_EQ(look_up("1") + look_up("2"), 1000);
      ASSERT_EQ(own.run(total(**database, *sum)), "1000");
      reads.fetch_add(1);
    }
  };
  std::thread first(reader);
  std::thread second(reader);
  for (int i = 0; i < 200 || (reads.load() < 100 && i < 20'000); ++i) ASSERT_TRUE(execute(move, {}));
  ended = true;
  first.join();
  second.join();
  EXPECT_GE(reads.load(), 10);
}

// A core sees its own writes, even if a transaction of the same turn began before the commit.
TEST_F(SqliteWriterTest, ACoreReadsItsOwnWrites) {
  const auto insert = describe("INSERT INTO t(name) VALUES(:name)");
  auto opened = SqliteDatabase::open(file.options, *loop.reactor, loop.mailbox, loop.threads, writer.get());
  ASSERT_TRUE(opened);
  SqliteDatabase& database = **opened;
  const auto select = loop.run(database.prepare("SELECT name FROM t WHERE id = :id", {}));
  ASSERT_TRUE(select);
  const auto by_id = [&] {
    const Argument one{"1"};
    return (*database.query(*select, {&one, 1}, {}).take())->next().take()->rows;
  };
  bool done = false;
  const auto write_then_read = [](SqliteDatabase& to, const Statement& statement, auto& read,
                                  bool& ended) -> core::Task<void> {
    const auto arguments = texts({"a"});
    const auto transaction = to.begin({});
    EXPECT_TRUE(co_await transaction->finish(statement, arguments, SIZE_MAX));
    EXPECT_EQ(read(), 1u);
    ended = true;
  };
  core::TaskGroup group;
  group.spawn(write_then_read(database, insert, by_id, done));
  while (writer->commits() == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the letter is in the mailbox
  loop.reactor->turn(loop.reactor->now());
  EXPECT_EQ(by_id(), 1u);
  loop.mailbox.deliver();
  loop.until([&] { return done; });
}

class SqliteTransactionTest : public SqliteWriterTest {
 public:
  void SetUp() override {
    SqliteWriterTest::SetUp();
    insert = describe("INSERT INTO t(name) VALUES(:name) RETURNING id");
    count = describe("SELECT count(*) FROM t");
  }
  std::unique_ptr<Transaction> begin(Instant deadline = never) {
    if (!writer) open();
    return writer->begin(*loop.reactor, loop.mailbox, {.deadline = deadline, .settings = {}});
  }

  Statement insert;
  Statement count;
};

TEST_F(SqliteTransactionTest, CommitsAllAtOnce) {
  auto transaction = begin();
  ASSERT_TRUE(loop.run(transaction->execute(insert, texts({"a"}))));
  EXPECT_EQ(value("SELECT count(*) FROM t"), "0");
  const auto counted = loop.run(transaction->execute(count, {}));
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->rows.row(0)[0].view(), "1");
  ASSERT_TRUE(loop.run(transaction->finish(insert, texts({"b"}), SIZE_MAX)));
  EXPECT_EQ(value("SELECT group_concat(name) FROM t"), "a,b");
  EXPECT_EQ(writer->commits(), 1u);

  transaction = begin();
  ASSERT_TRUE(loop.run(transaction->execute(insert, texts({"c"}))));
  ASSERT_TRUE(loop.run(transaction->commit()));
  EXPECT_EQ(value("SELECT count(*) FROM t"), "3");
  EXPECT_TRUE(loop.run(begin()->commit()));  // an empty transaction
}

TEST_F(SqliteTransactionTest, IsRolledBackWhereItIsLeft) {
  {
    auto transaction = begin();
    ASSERT_TRUE(loop.run(transaction->execute(insert, texts({"a"}))));
  }
  EXPECT_EQ(execute(insert, texts({"b"}))->changes, 1u);
  EXPECT_EQ(value("SELECT group_concat(name) FROM t"), "b");
}

TEST_F(SqliteTransactionTest, AnErrorEndsIt) {
  const auto wrong = describe("INSERT INTO t(id, name) VALUES(1, 'x')");
  auto transaction = begin();
  ASSERT_TRUE(loop.run(transaction->execute(insert, texts({"a"}))));
  const auto failed = loop.run(transaction->execute(wrong, {}));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().sqlstate, "23505");
  const auto later = loop.run(transaction->finish(insert, texts({"b"}), SIZE_MAX));
  EXPECT_FALSE(later);
  EXPECT_EQ(value("SELECT count(*) FROM t"), "0");
}

TEST_F(SqliteTransactionTest, WhatTheCommitRefusesIsToldApart) {
  const Statement child = describe("INSERT INTO children VALUES (:id, :parent)");
  const Statement orphan = describe("INSERT INTO children VALUES (:id, NULL)");
  for (const bool at_once : {true, false}) {
    const auto transaction = begin();
    ASSERT_TRUE(loop.run(transaction->execute(child, texts({"1", "7"}))));
    std::optional<Error> error;
    if (at_once) {
      const auto done = loop.run(transaction->finish(orphan, texts({"2"}), SIZE_MAX));
      if (!done) error = done.error();
    } else if (const auto done = loop.run(transaction->commit()); !done) {
      error = done.error();
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->sqlstate, "23503");
    EXPECT_TRUE(error->at_commit);
  }
  const auto transaction = begin();
  ASSERT_TRUE(loop.run(transaction->execute(orphan, texts({"1"}))));
  const auto refused = loop.run(transaction->finish(orphan, texts({"1"}), SIZE_MAX));
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().at_commit);
}

TEST_F(SqliteTransactionTest, MoreRowsThanTheCallerTakesAreNotCommitted) {
  const auto two = describe("INSERT INTO t(name) VALUES('a'), ('b') RETURNING id");
  auto failed = loop.run(begin()->finish(two, {}, 1));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().failure, Failure::statement);
  EXPECT_EQ(value("SELECT count(*) FROM t"), "0");
  EXPECT_TRUE(loop.run(begin()->finish(two, {}, 2)));
}

TEST_F(SqliteTransactionTest, WhatDoesNothingKeepsNothing) {
  const Statement missing = describe("UPDATE t SET name = 'x' WHERE id = 99");
  const Statement none = describe("SELECT id FROM t WHERE id = 99");
  for (const bool must_do : {true, false}) {
    for (const Statement& last : {missing, none}) {
      const auto transaction = writer->begin(*loop.reactor, loop.mailbox, {.must_do = must_do});
      ASSERT_TRUE(loop.run(transaction->execute(insert, texts({last.columns.empty() ? "a" : "b"}))));
      const auto done = loop.run(transaction->finish(last, {}, 1));
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_TRUE(done->nothing(!last.columns.empty()));
    }
    EXPECT_EQ(value("SELECT count(*) FROM t"), must_do ? "0" : "2");
  }
  // A single statement, whose trigger moves the row to another table.
  file.execute(
      "CREATE TABLE u (id INTEGER PRIMARY KEY); CREATE TABLE seen (id INT);"
      "CREATE TRIGGER out BEFORE INSERT ON u BEGIN INSERT INTO seen VALUES (NEW.id); SELECT RAISE(IGNORE); END");
  const Statement left_out = describe("INSERT INTO u VALUES (1) RETURNING id");
  for (const bool must_do : {true, false}) {
    ASSERT_TRUE(loop.run(writer->begin(*loop.reactor, loop.mailbox, {.must_do = must_do})->finish(left_out, {}, 1)));
    EXPECT_EQ(value("SELECT count(*) FROM seen"), must_do ? "0" : "1");
  }
}

// Other writes wait for the transaction, but only for a limited time.
TEST_F(SqliteTransactionTest, MayNotHoldTheWriterForLong) {
  writer.reset();
  file.options.hold_ms = 30;
  auto transaction = begin();
  ASSERT_TRUE(loop.run(transaction->execute(insert, texts({"a"}))));
  EXPECT_TRUE(execute(insert, texts({"b"})));
  const auto late = loop.run(transaction->execute(insert, texts({"c"})));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().failure, Failure::timed_out);
  EXPECT_EQ(value("SELECT group_concat(name) FROM t"), "b");
}

TEST_F(SqliteTransactionTest, OthersWaitForItsEnd) {
  auto transaction = begin();
  ASSERT_TRUE(loop.run(transaction->execute(insert, texts({"a"}))));
  Outcome outcome;
  outcome.results.resize(1);
  core::TaskGroup group;
  group.spawn(write(*writer, loop, insert, texts({"b"}), outcome, 0));
  for (int i = 0; i < 3; ++i) loop.reactor->turn(loop.reactor->now() + std::chrono::milliseconds(5));
  EXPECT_EQ(outcome.done, 0u);
  ASSERT_TRUE(loop.run(transaction->commit()));
  loop.until([&] { return outcome.done == 1; });
  EXPECT_EQ(value("SELECT group_concat(name) FROM t"), "a,b");
}

}  // namespace
}  // namespace sluice::sql
