#include "sql/sqlite/staging.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "sql/set/set.h"
#include "sql/sqlite/database.h"
#include "sql/sqlite/test_support.h"

namespace sluice::sql {
namespace {

using sqlite::testing::Loop;
using sqlite::testing::TempFile;

class SqliteStagingTest : public ::testing::Test {
 protected:
  struct Row {
    const char* id;
    const char* name;
  };

  SqliteStagingTest()
      : file(
            "CREATE TABLE written (id INTEGER PRIMARY KEY, name TEXT CHECK (name <> 'bad'));"
            "CREATE TABLE log (what TEXT);"
            "CREATE TRIGGER i AFTER INSERT ON written BEGIN INSERT INTO log VALUES ('i'); END;"
            "CREATE TRIGGER u AFTER UPDATE ON written BEGIN INSERT INTO log VALUES ('u'); END;"
            "CREATE TRIGGER d AFTER DELETE ON written BEGIN INSERT INTO log VALUES ('d'); END") {}
  void SetUp() override {
    auto opened = SqliteWriter::open(file.options);
    ASSERT_TRUE(opened) << opened.error().message;
    writer = *std::move(opened);
    auto made = SqliteDatabase::open(file.options, *loop.reactor, loop.mailbox, loop.threads, writer.get());
    ASSERT_TRUE(made) << made.error().message;
    database = *std::move(made);
    auto table = loop.run(describe_table(*database, Dialect::sqlite, "written"));
    ASSERT_TRUE(table) << table.error().message;
    SetOptions set{.columns = {{.name = "id", .key = true}, {.name = "name"}},
                   .existing = "SELECT id FROM written WHERE id BETWEEN 0 AND 999"};
    auto prepared = loop.run(prepare_set(*database, Dialect::sqlite, *table, std::move(set), {}));
    ASSERT_TRUE(prepared) << prepared.error().message;
    plan = std::move(*prepared);
  }

  static core::Task<Result<void>> add(Staging& staging, std::vector<Row> rows) {
    std::vector<StagedValue> values;
    std::vector<std::uint64_t> lines;
    for (const Row& row : rows) {
      for (const char* text : {row.id, row.name}) {
        values.push_back({.text = text == nullptr ? std::nullopt : std::optional<std::string_view>(text)});
      }
      lines.push_back(10 + lines.size());
    }
    co_return co_await staging.add(values, lines);
  }
  static core::Task<Result<SetOutcome>> put(SqliteDatabase& into, const SetPlan& plan, std::vector<Row> rows,
                                            ApplyOptions options = {}) {
    const auto staging = into.stage(plan, {});
    if (auto added = co_await add(*staging, rows); !added) co_return std::unexpected(added.error());
    co_return co_await staging->apply({}, options);
  }
  static std::string counts(const Result<SetOutcome>& outcome) {
    if (!outcome) return outcome.error().sqlstate + " " + outcome.error().message;
    if (!outcome->faults.empty()) return "faults";
    return std::to_string(outcome->inserted) + " " + std::to_string(outcome->updated) + " " +
           std::to_string(outcome->deleted) + " " + std::to_string(outcome->unchanged);
  }
  // Reads through another connection, like another program.
  std::string value(const std::string& sql) {
    sqlite3* other = nullptr;
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_open(file.options.path.c_str(), &other), SQLITE_OK);
    EXPECT_EQ(sqlite3_prepare_v2(other, sql.c_str(), -1, &statement, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    std::string result = text == nullptr ? "" : text;
    sqlite3_finalize(statement);
    sqlite3_close(other);
    return result;
  }
  std::string written() {
    return value(
        "SELECT group_concat(id || '=' || coalesce(name, 'null'), ' ') FROM (SELECT * FROM written ORDER BY id)");
  }
  std::string writes() { return value("SELECT group_concat(what, '') FROM log"); }

  TempFile file;
  Loop loop;
  std::unique_ptr<SqliteWriter> writer;
  std::unique_ptr<SqliteDatabase> database;
  SetPlan plan;
};

TEST_F(SqliteStagingTest, OwnStatementsRunForEachRow) {
  file.execute("INSERT INTO written VALUES (1, 'a'), (2, 'b'), (3, 'c'), (1001, 'outside')");
  auto table = loop.run(describe_table(*database, Dialect::sqlite, "written"));
  SetOptions set{.columns = {{.name = "id", .key = true}, {.name = "name"}},
                 .existing = "SELECT id FROM written WHERE id < 1000",
                 .own_delete = "UPDATE written SET id = id + 1000 WHERE id = :id AND name <> 'c'",
                 .own_insert = "REPLACE INTO written (id, name) VALUES (:id, :name)",
                 .own_update = "UPDATE written SET name = :name || '!' WHERE id = :id RETURNING id"};
  auto own = loop.run(prepare_set(*database, Dialect::sqlite, *table, std::move(set), {}));
  ASSERT_TRUE(own) << own.error().message;
  const std::vector<Row> rows{{"1", "new"}, {"4", "d"}, {"1001", "back"}};
  EXPECT_EQ(counts(loop.run(put(*database, *own, rows, {.commit = false}))), "2 1 1 0");
  EXPECT_EQ(written(), "1=a 2=b 3=c 1001=outside");
  EXPECT_EQ(counts(loop.run(put(*database, *own, rows))), "2 1 1 0");
  EXPECT_EQ(written(), "1=new! 3=c 4=d 1001=back 1002=b");
  const auto refused = loop.run(put(*database, *own, {{"1", "new!"}, {"4", "d"}, {"6", "bad"}, {"7", "g"}}));
  ASSERT_TRUE(refused && refused->faults.size() == 1 && refused->refusal);
  EXPECT_EQ(refused->faults[0].row, 2u);
  EXPECT_EQ(written(), "1=new! 3=c 4=d 1001=back 1002=b");
}

TEST_F(SqliteStagingTest, MoreThanIsAllowedIsNotDeleted) {
  file.execute("INSERT INTO written VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')");
  const auto limited = [&](std::vector<Row> rows, DeletionLimit limit, bool commit = true) {
    return loop.run(put(*database, plan, std::move(rows), {.commit = commit, .deletions = limit}));
  };
  for (const DeletionLimit limit : {DeletionLimit{.amount = 1}, DeletionLimit{.amount = 49, .percent = true}}) {
    const auto refused = limited({{"1", "new"}, {"2", "b"}, {"5", "e"}}, limit);
    ASSERT_TRUE(refused);
    EXPECT_TRUE(refused->too_many_deleted);
    EXPECT_EQ(counts(refused), "1 1 2 1");
    EXPECT_FALSE(limited({}, limit, false)->too_many_deleted) << "a dry run tells";
    EXPECT_EQ(written(), "1=a 2=b 3=c 4=d");
  }
  EXPECT_EQ(counts(limited({{"1", "a"}, {"2", "b"}}, {.amount = 50, .percent = true})), "0 0 2 2");
  EXPECT_EQ(counts(limited({}, {.amount = 2})), "0 0 2 0");
  EXPECT_FALSE(limited({}, {.amount = 0, .percent = true})->too_many_deleted) << "there is nothing to delete";
}

TEST_F(SqliteStagingTest, TheRowsBecomeTheSet) {
  file.execute(
      "INSERT INTO written VALUES (1, 'stays'), (2, 'goes'), (3, 'changes'), (4, NULL), (1000, 'is none of it');"
      "DELETE FROM log");
  const std::vector<Row> rows{{"1", "stays"}, {"3", "other"}, {"04", nullptr}, {"5", "new"}};
  EXPECT_EQ(counts(loop.run(put(*database, plan, rows))), "1 1 1 2");
  EXPECT_EQ(written(), "1=stays 3=other 4=null 5=new 1000=is none of it");
  EXPECT_EQ(writes(), "dui");
  EXPECT_EQ(counts(loop.run(put(*database, plan, rows))), "0 0 0 4");
  EXPECT_EQ(writes(), "dui");
  EXPECT_EQ(counts(loop.run(put(*database, plan, {}))), "0 0 4 0");
  EXPECT_EQ(written(), "1000=is none of it");
}

TEST_F(SqliteStagingTest, ADryRunChangesNothing) {
  file.execute("INSERT INTO written VALUES (1, 'a'), (2, 'b')");
  EXPECT_EQ(counts(loop.run(put(*database, plan, {{"2", "c"}, {"3", "d"}}, {.commit = false}))), "1 1 1 0");
  EXPECT_EQ(written(), "1=a 2=b");
  EXPECT_EQ(counts(loop.run(put(*database, plan, {{"2", "c"}, {"3", "d"}}))), "1 1 1 0") << "and no lock is left";
}

TEST_F(SqliteStagingTest, TheSameKeyTwiceIsAFaultOfTheRow) {
  const auto outcome = loop.run(put(*database, plan, {{"7", "a"}, {"8", "b"}, {"07", "c"}}));
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->faults.size(), 1u);
  EXPECT_EQ(outcome->faults[0].row, 2u);
  EXPECT_EQ(outcome->faults[0].line, 12u);
  EXPECT_EQ(outcome->faults[0].reason, "has the same key as row 0");
  EXPECT_EQ(written(), "");
}

TEST_F(SqliteStagingTest, ARowThatTheTableRefusesUndoesAllOfIt) {
  file.execute("INSERT INTO written VALUES (1, 'a'), (2, 'b')");
  const auto outcome = loop.run(put(*database, plan, {{"2", "c"}, {"3", "bad"}}));
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_EQ(outcome->faults.size(), 1u);
  EXPECT_EQ(outcome->faults[0].row, 1u);
  EXPECT_EQ(outcome->faults[0].line, 11u);
  EXPECT_EQ(outcome->faults[0].reason, "is outside of what is allowed") << "and not the expression";
  ASSERT_TRUE(outcome->refusal);
  EXPECT_EQ(outcome->refusal->sqlstate, "23514");
  EXPECT_EQ(written(), "1=a 2=b");
  EXPECT_EQ(counts(loop.run(put(*database, plan, {{"2", "c"}}))), "0 1 1 0");
}

TEST_F(SqliteStagingTest, ARowThatIsThereAndNoPartOfTheSetIsLeftAlone) {
  file.execute("INSERT INTO written VALUES (1, 'a'), (1000, 'is none of it')");
  for (const bool commit : {true, false}) {
    const auto outcome = loop.run(put(*database, plan, {{"1", "c"}, {"1000", "mine"}}, {.commit = commit}));
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(outcome->outside);
    ASSERT_EQ(outcome->faults.size(), 1u);
    EXPECT_EQ(outcome->faults[0].row, 1u);
    EXPECT_EQ(outcome->faults[0].line, 11u);
    EXPECT_EQ(written(), "1=a 1000=is none of it");
  }
}

TEST_F(SqliteStagingTest, RefusedRowsAreFoundWhereverTheyAre) {
  std::vector<std::string> ids;
  for (int id = 0; id < 5000; ++id) ids.push_back(std::to_string(id + 1000));
  file.execute("DELETE FROM written; INSERT INTO written VALUES (3, 'stays')");
  const auto found = [&](const std::vector<std::size_t>& bad) {
    std::vector<Row> rows;
    for (const std::string& id : ids) rows.push_back({id.c_str(), "good"});
    for (const std::size_t row : bad) rows[row].name = "bad";
    std::vector<std::size_t> listed;
    const auto outcome = loop.run(put(*database, plan, rows));
    EXPECT_TRUE(outcome) << outcome.error().message;
    if (!outcome) return listed;
    for (const StagedFault& fault : outcome->faults) {
      EXPECT_EQ(fault.line, fault.row + 10);
      EXPECT_EQ(fault.reason, "is outside of what is allowed");
      listed.push_back(fault.row);
    }
    return listed;
  };
  for (const std::vector<std::size_t>& bad :
       {std::vector<std::size_t>{0}, {4999}, {0, 1, 2, 1023, 1024, 2047, 2049, 3000, 4998, 4999}}) {
    EXPECT_EQ(found(bad), bad);
  }
  std::vector<std::size_t> every_second;
  for (std::size_t row = 1; row < 5000; row += 2) every_second.push_back(row);
  const auto listed = found(every_second);
  every_second.resize(100);
  EXPECT_EQ(listed, every_second);
  EXPECT_EQ(written(), "3=stays");
}

TEST_F(SqliteStagingTest, NoMoreRowsAreOfUseWhenAHundredAreWrong) {
  file.execute("CREATE TABLE strict (id INTEGER PRIMARY KEY, name TEXT) STRICT");
  auto table = loop.run(describe_table(*database, Dialect::sqlite, "strict"));
  ASSERT_TRUE(table) << table.error().message;
  SetOptions set{.columns = {{.name = "id", .key = true}, {.name = "name"}}, .existing = ""};
  auto prepared = loop.run(prepare_set(*database, Dialect::sqlite, *table, std::move(set), {}));
  ASSERT_TRUE(prepared) << prepared.error().message;
  const auto staging = database->stage(*prepared, {});
  ASSERT_TRUE(loop.run(add(*staging, std::vector<Row>(99, Row{"wrong", "x"}))));
  EXPECT_FALSE(staging->is_refused());
  ASSERT_TRUE(loop.run(add(*staging, {{"wrong", "x"}, {"wrong", "x"}})));
  EXPECT_TRUE(staging->is_refused());
  const auto outcome = loop.run(staging->apply({}, {}));
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->faults.size(), 100u);
}

TEST_F(SqliteStagingTest, DestroyedAtAnyMomentItLeavesTheOldSetOrTheNew) {
  core::TaskGroup tasks;
  const auto all = [](SqliteDatabase& into, const SetPlan& set, bool& done) -> core::Task<void> {
    const auto staging = into.stage(set, {});
    EXPECT_TRUE(co_await add(*staging, {{"1", "new"}, {"2", "new"}}));
    EXPECT_TRUE(co_await add(*staging, {{"3", "new"}}));
    EXPECT_EQ(counts(co_await staging->apply({}, {})), "3 0 1 0");
    done = true;
  };
  bool done = false;
  int turns = 0;
  for (; !done; ++turns) {
    ASSERT_LT(turns, 200);
    EXPECT_NE(counts(loop.run(put(*database, plan, {{"9", "old"}}))), "faults");
    tasks.spawn(all(*database, plan, done));
    for (int turn = 0; turn < turns && !done; ++turn) loop.turn(std::chrono::milliseconds(20));
    tasks.cancel();
    // The abandoned set, if it had started, is before this one in the writer's queue.
    EXPECT_EQ(counts(loop.run(put(*database, plan, {}, {.commit = false}))).substr(0, 3), "0 0");
    const std::string there = written();
    EXPECT_TRUE(there == "9=old" || there == "1=new 2=new 3=new") << there << " after " << turns << " turns";
    if (done) EXPECT_EQ(there, "1=new 2=new 3=new");
  }
  EXPECT_GT(turns, 2);
}

TEST_F(SqliteStagingTest, ADeadlineEndsItAndNothingIsWritten) {
  file.execute(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
      "INSERT INTO written SELECT i, 'old' FROM n;"
      "CREATE TRIGGER slow BEFORE DELETE ON written BEGIN INSERT INTO log WITH RECURSIVE n(i) AS"
      " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT i FROM n WHERE i < 0; END");
  const auto outcome = loop.run(put(*database, plan, {{"1", "new"}}, {.deadline = loop.reactor->now() + 200ms}));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().failure, Failure::timed_out) << outcome.error().message;
  EXPECT_EQ(value("SELECT count(*) FROM written WHERE name = 'old'"), "999");
  file.execute("DROP TRIGGER slow");
  EXPECT_EQ(counts(loop.run(put(*database, plan, {{"1", "new"}}))), "0 1 998 0");
}

TEST_F(SqliteStagingTest, AnAbandonedOneStopsWhereItIs) {
  file.execute(
      "INSERT INTO written VALUES (1, 'old'), (2, 'old');"
      "CREATE TRIGGER slow BEFORE DELETE ON written BEGIN INSERT INTO log WITH RECURSIVE n(i) AS"
      " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT i FROM n WHERE i < 0; END");
  core::TaskGroup tasks;
  std::optional<Result<SetOutcome>> never_there;
  tasks.spawn([](core::Task<Result<SetOutcome>> task, std::optional<Result<SetOutcome>>& into) -> core::Task<void> {
    into = co_await std::move(task);
  }(put(*database, plan, {{"1", "new"}}), never_there));
  for (int turn = 0; turn < 20; ++turn) loop.turn(std::chrono::milliseconds(10));
  EXPECT_FALSE(never_there);
  tasks.cancel();
  // The writer is free again, long before the trigger would have ended.
  EXPECT_EQ(counts(loop.run(put(*database, plan, {{"1", "old"}, {"2", "old"}}))), "0 0 0 2");
  EXPECT_EQ(written(), "1=old 2=old");
}

TEST_F(SqliteStagingTest, AFileThatAnotherProgramHoldsIsLeftAlone) {
  file.execute("INSERT INTO written VALUES (1, 'a')");
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file.options.path.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const auto outcome = loop.run(put(*database, plan, {{"1", "b"}}));
  EXPECT_FALSE(outcome);
  EXPECT_EQ(sqlite3_exec(other, "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  EXPECT_EQ(written(), "1=a");
  EXPECT_EQ(counts(loop.run(put(*database, plan, {{"1", "b"}}))), "0 1 0 0");
}

}  // namespace
}  // namespace sluice::sql
