#include "sql/postgres/staging.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sql/postgres/writing_fixture.h"
#include "sql/set/set.h"

namespace sluice::sql::postgres {
namespace {

class PostgresStaging : public testing::PostgresWriting {
 public:
  struct Row {
    const char* id;
    const char* name;
  };

  // A plan for rows of `written` with id and name. Those with an id from 0 to 999 are the set.
  const SetPlan& plan() {
    if (!plan_) plan_ = made("SELECT id FROM written WHERE id BETWEEN 0 AND 999");
    return *plan_;
  }
  // If `existing` is empty, the set may change all rows, and none is deleted.
  SetPlan made(std::string existing) {
    auto table = run(describe_table(*database, Dialect::postgres, "written"));
    EXPECT_TRUE(table) << table.error().message;
    SetOptions set{.columns = {{.name = "id", .key = true}, {.name = "name"}}, .existing = std::move(existing)};
    auto prepared = run(prepare_set(*database, Dialect::postgres, *table, std::move(set), {}));
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(*prepared) : SetPlan{};
  }

  static core::Task<Result<void>> add(sql::Staging& staging, std::vector<Row> rows, std::uint64_t first_line = 1) {
    std::vector<StagedValue> values;
    std::vector<std::uint64_t> lines;
    const auto text_of = [](const char* text) {
      return text == nullptr ? std::nullopt : std::optional<std::string_view>(text);
    };
    for (const Row& row : rows) {
      values.push_back({.text = text_of(row.id)});
      values.push_back({.text = text_of(row.name)});
      lines.push_back(first_line++);
    }
    co_return co_await staging.add(values, lines);
  }
  static core::Task<Result<SetOutcome>> put(Database& into, const SetPlan& plan, std::vector<Row> rows,
                                            ApplyOptions options = {}) {
    const auto staging = into.stage(plan, {});
    if (auto added = co_await add(*staging, rows); !added) co_return std::unexpected(added.error());
    co_return co_await staging->apply({}, options);
  }
  // "1 inserted, 0 updated, ..." as four numbers; an error as its message.
  static std::string counts(const Result<SetOutcome>& outcome) {
    if (!outcome) return outcome.error().sqlstate + " " + outcome.error().message;
    if (!outcome->faults.empty()) return "faults";
    return std::to_string(outcome->inserted) + " " + std::to_string(outcome->updated) + " " +
           std::to_string(outcome->deleted) + " " + std::to_string(outcome->unchanged);
  }
  bool somebody_waits_for_a_lock() {
    return turn_until([] { return psql("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0"; });
  }

 private:
  std::optional<SetPlan> plan_;
};

TEST_F(PostgresStaging, TheRowsBecomeTheSet) {
  open(options(1));
  psql("INSERT INTO written VALUES (1, 'stays'), (2, 'goes'), (3, 'changes'), (4, NULL), (1000, 'is none of it')");
  const std::vector<Row> rows{{"1", "stays"}, {"3", "other"}, {"04", nullptr}, {" 5", "tab\tand\\N\nline"}};
  EXPECT_EQ(counts(run(put(*database, plan(), rows))), "1 1 1 2");
  EXPECT_EQ(written(), "1=stays 3=other 4=null 5=tab\tand\\N\nline 1000=is none of it");
  EXPECT_EQ(counts(run(put(*database, plan(), rows))), "0 0 0 4");
  EXPECT_EQ(counts(run(put(*database, plan(), {}))), "0 0 4 0");
  EXPECT_EQ(written(), "1000=is none of it");
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(database->counters().opened, 1u);
}

TEST_F(PostgresStaging, OwnStatementsRunForEachRow) {
  for (const bool prepared : {true, false}) {
    Options one = options(1);
    one.prepared = prepared;
    open(one);
    psql("TRUNCATE written; INSERT INTO written VALUES (1, 'a'), (2, 'b'), (3, 'c'), (1001, 'outside')");
    auto table = run(describe_table(*database, Dialect::postgres, "written"));
    SetOptions set{.columns = {{.name = "id", .key = true}, {.name = "name"}},
                   .existing = "SELECT id FROM written WHERE id < 1000",
                   .own_delete = "UPDATE written SET id = id + 1000 WHERE id = :id AND name <> 'c'",
                   .own_insert =
                       "INSERT INTO written (id, name) VALUES (:id, :name) ON CONFLICT (id) DO UPDATE SET"
                       " name = 'it''s ' || :name -- back",
                   .own_update = "UPDATE written SET name = :name || '!' WHERE id = :id RETURNING id"};
    auto own = run(prepare_set(*database, Dialect::postgres, *table, std::move(set), {}));
    ASSERT_TRUE(own) << own.error().message;
    const std::vector<Row> rows{{"1", "new"}, {"4", "d"}, {"1001", "back"}};
    EXPECT_EQ(counts(run(put(*database, *own, rows, {.commit = false}))), "2 1 1 0");
    EXPECT_TRUE(comes_to_rest());
    EXPECT_EQ(written(), "1=a 2=b 3=c 1001=outside");
    EXPECT_EQ(counts(run(put(*database, *own, rows))), "2 1 1 0");
    EXPECT_EQ(written(), "1=new! 3=c 4=d 1001=it's back 1002=b");
    EXPECT_EQ(counts(run(put(*database, *own, {{"1", "new!"}, {"4", "d"}}))), "0 0 0 2");
  }
}

TEST_F(PostgresStaging, MoreThanIsAllowedIsNotDeleted) {
  open(options(1));
  psql("INSERT INTO written VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')");
  const auto limited = [&](std::vector<Row> rows, DeletionLimit limit, bool commit = true) {
    return run(put(*database, plan(), std::move(rows), {.commit = commit, .deletions = limit}));
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

TEST_F(PostgresStaging, ADryRunChangesNothing) {
  open(options(1));
  psql("INSERT INTO written VALUES (1, 'a'), (2, 'b')");
  EXPECT_EQ(counts(run(put(*database, plan(), {{"2", "c"}, {"3", "d"}}, {.commit = false}))), "1 1 1 0");
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(written(), "1=a 2=b");
  EXPECT_TRUE(is_usable());
}

TEST_F(PostgresStaging, TheSameKeyTwiceIsAFaultOfTheRow) {
  open(options(1));
  psql("INSERT INTO written VALUES (1, 'a')");
  const auto outcome = run(put(*database, plan(), {{"7", "a"}, {"8", "b"}, {"07", "c"}, {"7", "d"}}));
  ASSERT_TRUE(outcome);
  ASSERT_EQ(outcome->faults.size(), 2u);
  EXPECT_EQ(outcome->faults[0].row, 2u);
  EXPECT_EQ(outcome->faults[0].line, 3u);
  EXPECT_EQ(outcome->faults[0].reason, "has the same key as row 0");
  EXPECT_EQ(outcome->faults[1].row, 3u);
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(written(), "1=a");
}

TEST_F(PostgresStaging, AValueOfAnotherTypeIsAFaultOfItsRow) {
  open(options(1));
  psql("INSERT INTO written VALUES (1, 'a')");
  const auto found = [&](const char* id) {
    const auto staging = database->stage(plan(), {});
    EXPECT_TRUE(run(add(*staging, {{"5", "a"}, {"6", "b"}}, 10)));
    EXPECT_TRUE(run(add(*staging, {{"7", "a"}, {id, "b"}, {"9", "c"}}, 20)));
    return run(staging->apply({}, {}));
  };
  for (const auto& [id, reason] : {std::pair{"high", "is not of the column's type"},
                                   std::pair{"99999999999", "is out of the range of the column's type"}}) {
    const auto outcome = found(id);
    ASSERT_TRUE(outcome) << outcome.error().message;
    ASSERT_EQ(outcome->faults.size(), 1u);
    EXPECT_EQ(outcome->faults[0].row, 3u);
    EXPECT_EQ(outcome->faults[0].line, 21u);
    EXPECT_EQ(outcome->faults[0].column, "id");
    EXPECT_EQ(outcome->faults[0].reason, reason);
  }
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(written(), "1=a");
  EXPECT_TRUE(is_usable());
  EXPECT_EQ(database->counters().opened, 1u);
}

// The server's context has a line for the place in the document before the line for the row.
TEST_F(PostgresStaging, AMalformedDocumentIsAFaultOfItsRow) {
  open(options(1));
  psql("ALTER TABLE written ALTER name TYPE json USING NULL");
  for (const char* document : {"no", "{\n\n no", "[1,\nCOPY sluice_stage, line 9, column id: 1"}) {
    const auto outcome = run(put(*database, plan(), {{"1", "{}"}, {"2", "[]"}, {"3", "{}"}, {"4", document}}));
    ASSERT_TRUE(outcome) << outcome.error().message;
    ASSERT_EQ(outcome->faults.size(), 1u) << document;
    EXPECT_EQ(outcome->faults[0].row, 3u) << document;
    EXPECT_EQ(outcome->faults[0].line, 4u) << document;
    EXPECT_EQ(outcome->faults[0].column, "name") << document;
  }
}

// The server reports the error long before the last row, and add() does not wait.
TEST_F(PostgresStaging, RowsBehindAWrongOneAreTakenAndDropped) {
  open(options(1));
  const std::string long_name(1000, 'x');
  const auto staging = database->stage(plan(), {});
  ASSERT_TRUE(run(add(*staging, {{"1", "a"}, {"wrong", "b"}})));
  for (int batch = 0; batch < 50; ++batch) {
    std::vector<Row> rows(100, Row{"1", long_name.c_str()});
    ASSERT_TRUE(run(add(*staging, rows, 3 + 100 * static_cast<std::uint64_t>(batch))));
  }
  EXPECT_TRUE(staging->is_refused());
  const auto outcome = run(staging->apply({}, {}));
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_EQ(outcome->faults.size(), 1u);
  EXPECT_EQ(outcome->faults[0].row, 1u);
  EXPECT_EQ(outcome->faults[0].line, 2u);
}

TEST_F(PostgresStaging, ARowThatTheTableRefusesIsToldAndNothingIsWritten) {
  open(options(1));
  psql("INSERT INTO written VALUES (1, 'a'); ALTER TABLE written ADD CHECK (name <> 'bad')");
  const auto outcome = run(put(*database, plan(), {{"2", "good"}, {"3", "bad"}}));
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_EQ(outcome->faults.size(), 1u);
  EXPECT_EQ(outcome->faults[0].row, 1u);
  EXPECT_EQ(outcome->faults[0].line, 2u);
  EXPECT_EQ(outcome->faults[0].reason, "is outside of what is allowed (written_name_check)");
  ASSERT_TRUE(outcome->refusal);
  EXPECT_EQ(outcome->refusal->sqlstate, "23514");
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(written(), "1=a");
  EXPECT_TRUE(is_usable());
}

// If no rows are deleted first, the search for the refused rows must begin its own transaction.
TEST_F(PostgresStaging, WhatIsWrittenToFindRefusedRowsIsUndoneAndHasTheSettings) {
  psql(
      "ALTER TABLE written ADD CHECK (name <> 'bad');"
      "CREATE OR REPLACE FUNCTION is_ada() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
      " IF current_setting('test.who', true) IS DISTINCT FROM 'ada' THEN RAISE EXCEPTION 'who?'; END IF;"
      " RETURN NEW; END $$;"
      "CREATE TRIGGER ada BEFORE INSERT OR UPDATE ON written FOR EACH ROW EXECUTE FUNCTION is_ada()");
  for (const bool prepared : {true, false}) {
    Options chosen = options(1);
    chosen.prepared = prepared;
    open(std::move(chosen));
    const SetPlan all = made("");
    EXPECT_FALSE(all.remove);
    for (const bool commit : {true, false}) {
      const Setting who[] = {{.name = "test.who", .value = "ada"}};
      auto staging = database->stage(all, {.settings = who});
      ASSERT_TRUE(run(add(*staging, {{"2", "good"}, {"3", "bad"}, {"4", "good"}})));
      const auto outcome = run(staging->apply({}, {.commit = commit}));
      ASSERT_TRUE(outcome) << outcome.error().message;
      ASSERT_EQ(outcome->faults.size(), 1u);
      EXPECT_EQ(outcome->faults[0].row, 1u);
      EXPECT_EQ(outcome->faults[0].reason, "is outside of what is allowed (written_name_check)");
      staging.reset();
      EXPECT_TRUE(comes_to_rest());
      EXPECT_EQ(written(), "");
    }
  }
  psql("DROP FUNCTION is_ada CASCADE");
}

TEST_F(PostgresStaging, RefusedRowsAreFoundWhereverTheyAre) {
  open(options(1));
  psql("ALTER TABLE written ADD CHECK (name <> 'bad')");
  const SetPlan all = made("");
  std::vector<std::string> ids;
  for (int id = 0; id < 5000; ++id) ids.push_back(std::to_string(id));
  const auto found = [&](const std::vector<std::size_t>& bad) {
    std::vector<Row> rows;
    for (const std::string& id : ids) rows.push_back({id.c_str(), "good"});
    for (const std::size_t row : bad) rows[row].name = "bad";
    std::vector<std::size_t> listed;
    const auto outcome = run(put(*database, all, rows));
    EXPECT_TRUE(outcome) << outcome.error().message;
    if (!outcome) return listed;
    for (const StagedFault& fault : outcome->faults) {
      EXPECT_EQ(fault.line, fault.row + 1);
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
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(written(), "");
}

TEST_F(PostgresStaging, ARowThatIsThereAndNoPartOfTheSetIsLeftAlone) {
  open(options(1));
  psql("INSERT INTO written VALUES (1, 'a'), (1000, 'is none of it')");
  for (const bool commit : {true, false}) {
    const auto outcome = run(put(*database, plan(), {{"1", "c"}, {"1000", "mine"}}, {.commit = commit}));
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(outcome->outside);
    ASSERT_EQ(outcome->faults.size(), 1u);
    EXPECT_EQ(outcome->faults[0].row, 1u);
    EXPECT_EQ(outcome->faults[0].line, 2u);
    EXPECT_TRUE(comes_to_rest());
    EXPECT_EQ(written(), "1=a 1000=is none of it");
  }
}

TEST_F(PostgresStaging, TheLinesOfRowsAreKnownHoweverManyThereAre) {
  open(options(1));
  const auto staging = database->stage(plan(), {});
  for (std::uint64_t batch = 0; batch < 150; ++batch) {
    std::vector<Row> rows(1000, Row{"1", "x"});
    if (batch == 140) rows[7].id = "wrong";
    ASSERT_TRUE(run(add(*staging, rows, 2 + 2000 * batch)));
  }
  const auto outcome = run(staging->apply({}, {}));
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_EQ(outcome->faults.size(), 1u);
  EXPECT_EQ(outcome->faults[0].row, 140'007u);
  EXPECT_EQ(outcome->faults[0].line, 280'009u);
}

TEST_F(PostgresStaging, ManyRowsGoAsTheServerTakesThem) {
  open(options(1));
  constexpr std::size_t batches = 60;
  const std::string long_name(2000, 'n');
  auto staging = database->stage(plan(), {});
  for (std::size_t batch = 0; batch < batches; ++batch) {
    std::vector<std::string> ids;
    for (std::size_t i = 0; i < 1000; ++i) ids.push_back(std::to_string(2000 + batch * 1000 + i));
    std::vector<Row> rows;
    for (const std::string& id : ids) rows.push_back({id.c_str(), long_name.c_str()});
    ASSERT_TRUE(run(add(*staging, rows)));
  }
  EXPECT_EQ(counts(run(staging->apply({}, {}))), "60000 0 0 0");
  staging.reset();
  EXPECT_EQ(psql("SELECT count(*), min(length(name)), max(id) FROM written"), "60000|2000|61999");
  EXPECT_TRUE(comes_to_rest());
}

TEST_F(PostgresStaging, DestroyedAtAnyMomentItLeavesTheOldSetOrTheNew) {
  open(options(1));
  (void)plan();
  const auto all = [](Database& into, const SetPlan& set, bool& done) -> core::Task<void> {
    const auto staging = into.stage(set, {});
    EXPECT_TRUE(co_await add(*staging, {{"1", "new"}, {"2", "new"}}));
    EXPECT_TRUE(co_await add(*staging, {{"3", "new"}}));
    EXPECT_EQ(counts(co_await staging->apply({}, {})), "3 0 1 0");
    done = true;
  };
  bool done = false;
  int turns = 0;
  std::size_t replaced = 0;
  for (; !done; ++turns) {
    ASSERT_LT(turns, 200);
    psql("DELETE FROM written; INSERT INTO written VALUES (9, 'old')");
    tasks.spawn(all(*database, plan(), done));
    for (int turn = 0; turn < turns; ++turn) reactor->turn(reactor->now() + 20ms);
    tasks.cancel();
    EXPECT_TRUE(comes_to_rest()) << "after " << turns << " turns";
    const std::string there = written();
    EXPECT_TRUE(there == "9=old" || there == "1=new 2=new 3=new") << there << " after " << turns << " turns";
    if (there != "9=old") ++replaced;
    psql("DELETE FROM written WHERE id < 0");
    const std::string next = counts(run(put(*database, plan(), {{"5", "next"}})));
    EXPECT_TRUE(next.starts_with("1 0 ")) << next << " after " << turns << " turns";
  }
  EXPECT_GT(turns, 4);
  EXPECT_GT(replaced, 0u);
  EXPECT_EQ(database->counters().lost, 0u);
}

TEST_F(PostgresStaging, WhatAnotherTransactionChangedIsTriedAgain) {
  psql("INSERT INTO written VALUES (1, 'a'), (2, 'b')");
  const Statement change = prepare("UPDATE written SET name = 'theirs' WHERE id = 1");
  for (const std::uint32_t retries : {0u, 3u}) {
    auto other = database->begin({});
    ASSERT_TRUE(run(other->execute(change, {})));
    std::optional<Result<SetOutcome>> outcome;
    tasks.spawn(keep(put(*database, plan(), {{"1", "ours"}, {"2", "ours"}}, {.retries = retries}), outcome));
    ASSERT_TRUE(somebody_waits_for_a_lock());
    ASSERT_TRUE(run(other->commit()));
    settle();
    ASSERT_TRUE(outcome);
    if (retries == 0) {
      ASSERT_FALSE(*outcome);
      EXPECT_EQ(outcome->error().failure, Failure::conflict);
      EXPECT_EQ(outcome->error().sqlstate, "40001");
      EXPECT_EQ(written(), "1=theirs 2=b");
    } else {
      EXPECT_EQ(counts(*outcome), "0 2 0 0");
      EXPECT_EQ(written(), "1=ours 2=ours");
    }
    other.reset();
    EXPECT_TRUE(comes_to_rest());
  }
}

TEST_F(PostgresStaging, ADeadlineEndsItsTransaction) {
  psql("INSERT INTO written VALUES (1, 'a')");
  const Statement change = prepare("UPDATE written SET name = 'theirs' WHERE id = 1");
  auto other = database->begin({});
  ASSERT_TRUE(run(other->execute(change, {})));
  const auto outcome = run(put(*database, plan(), {{"1", "ours"}}, {.deadline = reactor->now() + 300ms}));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().failure, Failure::timed_out) << outcome.error().message;
  other.reset();
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(written(), "1=a");
  EXPECT_TRUE(is_usable());
}

TEST_F(PostgresStaging, ALostConnectionIsToldWhereverItHappens) {
  open(options(1));
  (void)plan();
  const std::string end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'";
  psql("INSERT INTO written VALUES (1, 'a')");
  for (const bool copying : {true, false}) {
    const auto staging = database->stage(plan(), {});
    ASSERT_TRUE(run(add(*staging, {{"5", "a"}})));
    psql(end);
    std::optional<Error> error;
    for (int batch = 0; copying && !error && batch < 1000; ++batch) {
      if (auto added = run(add(*staging, {{"6", "b"}})); !added) error = added.error();
    }
    if (!error) {
      const auto outcome = run(staging->apply({}, {}));
      ASSERT_FALSE(outcome);
      error = outcome.error();
    }
    EXPECT_EQ(error->failure, Failure::lost) << error->message;
    EXPECT_EQ(written(), "1=a");
  }
  EXPECT_TRUE(is_usable());
  EXPECT_TRUE(comes_to_rest());
}

}  // namespace
}  // namespace sluice::sql::postgres
