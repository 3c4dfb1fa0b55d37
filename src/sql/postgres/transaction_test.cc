#include "sql/postgres/transaction.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sql/postgres/writing_fixture.h"

namespace sluice::sql::postgres {
namespace {

class PostgresTransaction : public testing::PostgresWriting {
 public:
  Result<Written> execute(sql::Transaction& transaction, const Statement& statement,
                          std::initializer_list<const char*> values = {}) {
    const auto arguments = texts(values);
    return run(transaction.execute(statement, arguments));
  }
  Statement insert() { return prepare("INSERT INTO written VALUES (:id, :name)"); }
};

TEST_F(PostgresTransaction, IsSeenWhenItHasBeenCommitted) {
  const Statement add = insert();
  const Statement rename = prepare("UPDATE written SET name = name || :more RETURNING id, name");
  const auto transaction = database->begin({});
  EXPECT_EQ(execute(*transaction, add, {"1", "a"})->changes, 1u);
  EXPECT_EQ(execute(*transaction, add, {"2", nullptr})->changes, 1u);
  EXPECT_EQ(written(), "");
  const auto renamed = execute(*transaction, rename, {"!"});
  ASSERT_TRUE(renamed) << renamed.error().message;
  EXPECT_EQ(renamed->changes, 2u);
  ASSERT_EQ(renamed->rows.rows, 2u);
  EXPECT_TRUE(renamed->rows.last);
  EXPECT_EQ(renamed->rows.columns[1].name, "name");
  EXPECT_EQ(renamed->rows.row(0)[1].view(), "a!");
  EXPECT_TRUE(renamed->rows.row(1)[1].is_null());
  ASSERT_TRUE(run(transaction->commit()));
  EXPECT_EQ(written(), "1=a! 2=null");
  EXPECT_TRUE(comes_to_rest());
}

TEST_F(PostgresTransaction, ALastStatementCommitsWithItself) {
  const Statement add = insert();
  for (const char* id : {"1", "2"}) {
    const auto transaction = database->begin({});
    const auto arguments = texts({id, "x"});
    const auto done = run(transaction->finish(add, arguments, SIZE_MAX));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->changes, 1u);
    EXPECT_EQ(written(), id[0] == '1' ? "1=x" : "1=x 2=x") << "while the transaction is still there";
  }
}

TEST_F(PostgresTransaction, WhatDoesNothingKeepsNothing) {
  const Statement add = insert();
  const Statement missing = prepare("UPDATE written SET name = 'x' WHERE id = 99");
  const Statement returning = prepare("UPDATE written SET name = 'x' WHERE id = 99 RETURNING id");
  for (const bool must_do : {true, false}) {
    for (const Statement& last : {missing, returning}) {
      const auto transaction = database->begin({.must_do = must_do});
      const auto arguments = texts({last.columns.empty() ? "1" : "2", "a"});
      ASSERT_TRUE(run(transaction->execute(add, arguments)));
      const auto done = run(transaction->finish(last, {}, 1));
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_TRUE(done->nothing(!last.columns.empty()));
    }
    EXPECT_EQ(written(), must_do ? "" : "1=a 2=a");
  }
  const auto transaction = database->begin({.must_do = true});
  const auto arguments = texts({"3", "b"});
  ASSERT_TRUE(run(transaction->finish(add, arguments, SIZE_MAX)));
  EXPECT_EQ(written(), "1=a 2=a 3=b");
  EXPECT_TRUE(comes_to_rest());
}

TEST_F(PostgresTransaction, MoreRowsThanAskedForAreNotCommitted) {
  psql("INSERT INTO written VALUES (1, 'a'), (2, 'b')");
  const Statement rename = prepare("UPDATE written SET name = 'c' RETURNING id");
  auto transaction = database->begin({});
  auto done = run(transaction->finish(rename, {}, 1));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().failure, Failure::statement);
  transaction.reset();
  EXPECT_EQ(written(), "1=a 2=b");
  transaction = database->begin({});
  done = run(transaction->finish(rename, {}, 2));
  ASSERT_TRUE(done);
  EXPECT_EQ(done->rows.rows, 2u);
  EXPECT_EQ(written(), "1=c 2=c");
}

TEST_F(PostgresTransaction, NothingIsSentBeforeItsFirstStatement) {
  open(options(1));
  const auto first = database->begin({});
  EXPECT_TRUE(run(first->commit()));
  const auto second = database->begin({});
  EXPECT_TRUE(is_usable()) << "neither has a connection";
}

TEST_F(PostgresTransaction, DestroyedAtAnyMomentItIsRolledBack) {
  open(options(1));
  const Statement add = insert();
  const auto two = texts({"1", "a"});
  const auto other = texts({"2", "b"});
  // A coroutine that executes both statements without a commit, driven by the loop's turns.
  const auto write_both = [](sql::Transaction& transaction, const Statement& statement,
                             const std::vector<Argument>& one, const std::vector<Argument>& next,
                             bool& done) -> core::Task<void> {
    EXPECT_TRUE(co_await transaction.execute(statement, one));
    EXPECT_TRUE(co_await transaction.execute(statement, next));
    done = true;
  };
  bool done = false;
  int turns = 0;
  for (; !done; ++turns) {
    ASSERT_LT(turns, 100);
    auto transaction = database->begin({});
    tasks.spawn(write_both(*transaction, add, two, other, done));
    for (int turn = 0; turn < turns; ++turn) reactor->turn(reactor->now() + 20ms);
    tasks.cancel();
    transaction.reset();
    EXPECT_TRUE(comes_to_rest());
    EXPECT_EQ(written(), "") << "after " << turns << " turns";
    EXPECT_TRUE(is_usable());
  }
  EXPECT_GT(turns, 1);
  EXPECT_EQ(database->counters().opened, 1u);
}

TEST_F(PostgresTransaction, AStatementThatRunsIsCancelledWithIt) {
  open(options(1));
  const Statement slow = prepare("INSERT INTO written SELECT 1, pg_sleep(60)::text");
  auto transaction = database->begin({});
  std::optional<Result<Written>> result;
  tasks.spawn(keep(transaction->execute(slow, {}), result));
  ASSERT_TRUE(turn_until([] {
    return psql(
               "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO written SELECT 1%' AND state = "
               "'active' "
               "AND wait_event = 'PgSleep'") == "1";
  }));
  tasks.cancel();
  transaction.reset();
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(written(), "");
  EXPECT_TRUE(is_usable());
}

TEST_F(PostgresTransaction, CommittingAndDestroyedItIsCommittedOrNot) {
  open(options(1));
  const Statement add = insert();
  const auto arguments = texts({"1", "a"});
  std::size_t committed = 0;
  for (int turns = 0; turns < 6; ++turns) {
    auto transaction = database->begin({});
    std::optional<Result<Written>> result;
    tasks.spawn(keep(transaction->finish(add, arguments, SIZE_MAX), result));
    for (int turn = 0; turn < turns; ++turn) reactor->turn(reactor->now() + 20ms);
    tasks.cancel();
    transaction.reset();
    EXPECT_TRUE(comes_to_rest());
    const std::string there = written();
    EXPECT_TRUE(there == "1=a" || (there.empty() && !result)) << there;
    if (there == "1=a") ++committed;
    psql("DELETE FROM written");
    EXPECT_TRUE(is_usable());
  }
  EXPECT_GT(committed, 0u);
}

TEST_F(PostgresTransaction, ErrorsUndoAllOfIt) {
  open(options(1));
  psql("DROP TABLE IF EXISTS late; CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
  const Statement add = insert();
  const Statement add_late = prepare("INSERT INTO late VALUES (:id)");
  auto transaction = database->begin({});
  EXPECT_TRUE(execute(*transaction, add, {"1", "a"}));
  auto wrong = execute(*transaction, add, {"1", "b"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().failure, Failure::statement);
  EXPECT_EQ(wrong.error().sqlstate, "23505");
  transaction.reset();
  EXPECT_TRUE(comes_to_rest());

  transaction = database->begin({});
  wrong = execute(*transaction, add, {"x", "b"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().failure, Failure::bad_argument);
  transaction.reset();

  // Errors that only the commit detects.
  for (const bool at_once : {false, true}) {
    transaction = database->begin({});
    EXPECT_TRUE(execute(*transaction, add, {"1", "a"}));
    EXPECT_TRUE(execute(*transaction, add_late, {"7"}));
    if (at_once) {
      const auto arguments = texts({"7"});
      wrong = run(transaction->finish(add_late, arguments, SIZE_MAX));
      ASSERT_FALSE(wrong);
      EXPECT_EQ(wrong.error().sqlstate, "23505");
    } else {
      EXPECT_TRUE(execute(*transaction, add_late, {"7"}));
      const auto committed = run(transaction->commit());
      ASSERT_FALSE(committed);
      EXPECT_EQ(committed.error().sqlstate, "23505");
    }
    transaction.reset();
    EXPECT_TRUE(comes_to_rest());
    EXPECT_EQ(written(), "");
  }
  EXPECT_EQ(psql("SELECT count(*) FROM late"), "0");
  psql("DROP TABLE late");
  EXPECT_TRUE(is_usable());
  EXPECT_EQ(database->counters().opened, 1u);
}

TEST_F(PostgresTransaction, WhatTheCommitRefusesIsToldApart) {
  psql("ALTER TABLE written ADD UNIQUE (name) DEFERRABLE INITIALLY DEFERRED");
  const Statement add = insert();
  const auto same = texts({"2", "a"});
  for (const bool at_once : {true, false}) {
    auto transaction = database->begin({});
    ASSERT_TRUE(execute(*transaction, add, {"1", "a"}));
    std::optional<Error> error;
    if (at_once) {
      const auto done = run(transaction->finish(add, same, SIZE_MAX));
      if (!done) error = done.error();
    } else {
      ASSERT_TRUE(execute(*transaction, add, {"2", "a"}));
      if (const auto done = run(transaction->commit()); !done) error = done.error();
    }
    ASSERT_TRUE(error);
    EXPECT_EQ(error->sqlstate, "23505");
    EXPECT_TRUE(error->at_commit);
  }
  auto transaction = database->begin({});
  ASSERT_TRUE(execute(*transaction, add, {"2", "b"}));
  // The insert violates the primary key, which is not deferred.
  const auto refused = run(transaction->finish(add, same, SIZE_MAX));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().sqlstate, "23505");
  EXPECT_FALSE(refused.error().at_commit);
}

TEST_F(PostgresTransaction, MoreBytesThanMayBeHeldAreRefused) {
  open(options(1));
  psql("INSERT INTO written SELECT n, repeat('x', 1000000) FROM generate_series(1, 20) n");
  const Statement all = prepare("UPDATE written SET id = id RETURNING name");
  auto transaction = database->begin({});
  const auto refused = execute(*transaction, all);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().failure, Failure::too_large);
  transaction.reset();
  EXPECT_TRUE(is_usable());
}

TEST_F(PostgresTransaction, TwoThatMeetAreAConflictAndTheSecondTryIsNone) {
  psql("INSERT INTO written VALUES (1, '10'), (2, '10')");
  // Write skew: each transaction reads both rows and updates one.
  const Statement sum = prepare("SELECT sum(name::int) FROM written");
  const Statement take = prepare("UPDATE written SET name = (name::int - 15)::text WHERE id = :id::int");
  const TransactionOptions serializable{.isolation = Isolation::serializable, .settings = {}};
  auto first = database->begin(serializable);
  auto second = database->begin(serializable);
  EXPECT_EQ(execute(*first, sum)->rows.row(0)[0].view(), "20");
  EXPECT_EQ(execute(*second, sum)->rows.row(0)[0].view(), "20");
  EXPECT_TRUE(execute(*first, take, {"1"}));
  const auto taken = execute(*second, take, {"2"});
  ASSERT_TRUE(run(first->commit()));
  std::optional<Error> conflict;
  if (!taken) conflict = taken.error();
  if (taken) {
    if (auto committed = run(second->commit()); !committed) conflict = committed.error();
  }
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->failure, Failure::conflict);
  EXPECT_EQ(conflict->sqlstate, "40001");
  second = database->begin(serializable);
  EXPECT_EQ(execute(*second, sum)->rows.row(0)[0].view(), "5");
  EXPECT_TRUE(execute(*second, take, {"2"}));
  EXPECT_TRUE(run(second->commit()));
  EXPECT_EQ(written(), "1=-5 2=-5");
}

TEST_F(PostgresTransaction, ADeadlockIsAConflict) {
  psql("INSERT INTO written VALUES (1, ''), (2, '')");
  const Statement mark = prepare("UPDATE written SET name = name || :by WHERE id = :id::int");
  auto first = database->begin({});
  auto second = database->begin({});
  EXPECT_TRUE(execute(*first, mark, {"a", "1"}));
  EXPECT_TRUE(execute(*second, mark, {"b", "2"}));
  std::optional<Result<Written>> of_first;
  std::optional<Result<Written>> of_second;
  const auto to_second = texts({"a", "2"});
  const auto to_first = texts({"b", "1"});
  tasks.spawn(keep(first->execute(mark, to_second), of_first));
  tasks.spawn(keep(second->execute(mark, to_first), of_second));
  ASSERT_TRUE(turn_until([&] { return of_first || of_second; }));
  // The victim's rollback releases the other transaction, so one turn may bring both results.
  const bool first_fell = of_first && !*of_first;
  auto& victim = first_fell ? of_first : of_second;
  ASSERT_TRUE(victim);
  ASSERT_FALSE(*victim);
  EXPECT_EQ(victim->error().failure, Failure::conflict);
  EXPECT_EQ(victim->error().sqlstate, "40P01");
  (first_fell ? first : second).reset();
  settle();
  ASSERT_TRUE(of_first && of_second);
  auto& survivor = first ? first : second;
  EXPECT_TRUE(run(survivor->commit()));
  EXPECT_EQ(written().size(), std::string("1=a 2=a").size()) << written();
}

TEST_F(PostgresTransaction, ADeadlineEndsIt) {
  open(options(1));
  const Statement slow = prepare("INSERT INTO written SELECT 1, pg_sleep(60)::text");
  const Statement add = insert();
  auto transaction = database->begin({.deadline = reactor->now() + 300ms, .settings = {}});
  EXPECT_TRUE(execute(*transaction, add, {"5", "a"}));
  const auto late = execute(*transaction, slow);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().failure, Failure::timed_out);
  transaction.reset();
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(written(), "");
  EXPECT_TRUE(is_usable());
}

TEST_F(PostgresTransaction, ALostConnectionIsTold) {
  open(options(1));
  const Statement add = insert();
  const Statement slow = prepare("INSERT INTO written SELECT 1, pg_sleep(60)::text");
  const std::string end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'";
  auto transaction = database->begin({});
  EXPECT_TRUE(execute(*transaction, add, {"1", "a"}));
  psql(end);
  auto lost = execute(*transaction, add, {"2", "b"});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().failure, Failure::lost) << lost.error().message;
  transaction.reset();
  EXPECT_TRUE(is_usable());

  transaction = database->begin({});
  std::optional<Result<Written>> result;
  tasks.spawn(keep(transaction->execute(slow, {}), result));
  ASSERT_TRUE(
      turn_until([] { return psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"; }));
  psql(end);
  settle();
  ASSERT_TRUE(result && !*result);
  EXPECT_EQ(result->error().failure, Failure::lost) << result->error().message;
  transaction.reset();
  EXPECT_TRUE(is_usable());
  EXPECT_EQ(written(), "");
}

TEST_F(PostgresTransaction, TheNextOneWaitsForTheOnlyConnection) {
  open(options(1));
  const Statement add = insert();
  auto first = database->begin({});
  EXPECT_TRUE(execute(*first, add, {"1", "a"}));
  const auto second = database->begin({});
  std::optional<Result<Written>> result;
  const auto arguments = texts({"2", "b"});
  tasks.spawn(keep(second->finish(add, arguments, SIZE_MAX), result));
  for (int turn = 0; turn < 5; ++turn) reactor->turn(reactor->now() + 10ms);
  EXPECT_FALSE(result);
  EXPECT_TRUE(run(first->commit()));
  first.reset();
  settle();
  ASSERT_TRUE(result && *result);
  EXPECT_EQ(written(), "1=a 2=b");
}

TEST_F(PostgresTransaction, ItsSettingsAreItsOwn) {
  open(options(1));
  const Statement ask = prepare(
      "SELECT current_setting('app.who', true), current_setting('app.tenant', true), "
      "current_setting('transaction_isolation')");
  const std::vector<Setting> settings{{"app.who", "o'hara"}, {"app.tenant", "7"}};
  for (const auto& [isolation, name] :
       {std::pair{Isolation::standard, "read committed"}, std::pair{Isolation::read_committed, "read committed"},
        std::pair{Isolation::repeatable_read, "repeatable read"}, std::pair{Isolation::serializable, "serializable"}}) {
    auto transaction = database->begin({.isolation = isolation, .settings = settings});
    const auto told = execute(*transaction, ask);
    ASSERT_TRUE(told) << told.error().message;
    EXPECT_EQ(told->rows.row(0)[0].view(), "o'hara");
    EXPECT_EQ(told->rows.row(0)[1].view(), "7");
    EXPECT_EQ(told->rows.row(0)[2].view(), name);
    transaction.reset();
  }
  const auto plain = database->begin({});
  EXPECT_EQ(execute(*plain, ask)->rows.row(0)[0].view(), "") << "gone with their transactions";
}

TEST_F(PostgresTransaction, WhatItSetsForTheSessionEndsWithIt) {
  Options chosen = options(1);
  chosen.statement_timeout_ms = 60'000;
  open(chosen);
  const Statement set =
      prepare("SELECT set_config('app.who', :who, false), set_config('search_path', 'pg_temp', false)");
  const Statement ask = prepare(
      "SELECT coalesce(current_setting('app.who', true), ''), current_setting('search_path'),"
      " current_setting('statement_timeout')");
  const auto asked = [&] {
    std::string all;
    const auto transaction = database->begin({});
    const auto done = execute(*transaction, ask);
    EXPECT_TRUE(done) << done.error().message;
    for (int i = 0; done && i < 3; ++i) all += std::string(done->rows.row(0)[i].view()) + "|";
    return all;
  };
  const std::string before = asked();
  EXPECT_TRUE(before.ends_with("|1min|")) << before;
  for (const bool at_once : {true, false}) {
    const auto transaction = database->begin({});
    const auto arguments = texts({"ada"});
    if (at_once) {
      EXPECT_TRUE(run(transaction->finish(set, arguments, SIZE_MAX)));
    } else {
      EXPECT_TRUE(run(transaction->execute(set, arguments)));
      EXPECT_TRUE(run(transaction->commit()));
    }
  }
  EXPECT_EQ(asked(), before);
  {
    const auto left = database->begin({});
    EXPECT_TRUE(execute(*left, set, {"bob"}));
  }
  EXPECT_EQ(asked(), before) << "what is rolled back has set nothing";
  EXPECT_EQ(database->counters().opened, 1u) << "always on the same connection";
}

TEST_F(PostgresTransaction, ItsOwnDeadlineGoesBeforeTheStatementTimeout) {
  Options chosen = options(1);
  chosen.statement_timeout_ms = 60'000;
  open(chosen);
  const Statement ask = prepare("SELECT current_setting('statement_timeout')::interval > '1 h'");
  const auto is_long = [&](sql::Transaction& transaction) {
    const auto done = execute(transaction, ask);
    EXPECT_TRUE(done) << done.error().message;
    return done && done->rows.row(0)[0].view() == "t";
  };
  auto patient = database->begin({.deadline = reactor->now() + 2h});
  EXPECT_TRUE(is_long(*patient));
  patient->renew({}, false);
  EXPECT_TRUE(is_long(*patient));
  EXPECT_TRUE(run(patient->commit()));
  patient.reset();
  EXPECT_FALSE(is_long(*database->begin({.deadline = reactor->now() + 1s})));
  EXPECT_FALSE(is_long(*database->begin({})));
}

TEST_F(PostgresTransaction, EachOfItsStatementsHasTheStatementTimeout) {
  Options chosen = options(1);
  chosen.wait_ms = 0;
  chosen.statement_timeout_ms = 1000;
  open(chosen);
  EXPECT_TRUE(turn_until([&] { return database->open_connections() == 1; }));
  const Statement nap = prepare("SELECT pg_sleep(:s)");
  const auto transaction = database->begin({});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(execute(*transaction, nap, {"0.6"}));
  const auto late = execute(*transaction, nap, {"600"});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().failure, Failure::timed_out);
}

TEST_F(PostgresTransaction, WhatItChangesInTheSessionEndsWithIt) {
  psql("DO $$ BEGIN CREATE ROLE leaked; EXCEPTION WHEN duplicate_object THEN NULL; END $$");
  open(options(1));
  const std::vector<Statement> changes{prepare("SET ROLE leaked"), prepare("SET SESSION AUTHORIZATION leaked"),
                                       prepare("CREATE TEMPORARY TABLE written (id int, name text)"),
                                       prepare("SELECT pg_advisory_lock(4)"), prepare("LISTEN leaked")};
  const Statement fails = prepare("SELECT 1 / (id - id) FROM (SELECT 1 AS id) one");
  const Statement ask = prepare(
      "SELECT current_user::text || ' ' || session_user::text || ' ' || to_regclass('written')::oid::regclass::text "
      "|| ' ' || (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) || ' ' || "
      "(SELECT count(*) FROM pg_listening_channels()) || ' ' ||"
      " (SELECT count(*) FROM pg_class WHERE relname = 'written')");
  enum class End { commits, finishes, fails, leaves };
  for (const End end : {End::commits, End::finishes, End::fails, End::leaves}) {
    for (const Statement& change : changes) {
      auto transaction = database->begin({});
      if (end == End::finishes) {
        EXPECT_TRUE(run(transaction->finish(change, {}, SIZE_MAX))) << change.text;
      } else {
        EXPECT_TRUE(execute(*transaction, change)) << change.text;
      }
      if (end == End::commits) {
        EXPECT_TRUE(run(transaction->commit()));
      }
      if (end == End::fails) {
        EXPECT_FALSE(execute(*transaction, fails));
      }
      transaction.reset();
      const auto next = database->begin({});
      const auto told = execute(*next, ask);
      ASSERT_TRUE(told) << told.error().message;
      EXPECT_EQ(told->rows.row(0)[0].view(), "postgres postgres written 0 0 1") << change.text;
    }
  }
  EXPECT_EQ(database->counters().opened, 1u);
  EXPECT_EQ(database->counters().lost, 0u);
}

TEST_F(PostgresTransaction, WhatOnlyReadsIsRefusedIfItWrites) {
  psql(
      "CREATE OR REPLACE FUNCTION writes(n int) RETURNS int LANGUAGE sql AS "
      "$$ INSERT INTO written VALUES (n, 'f') RETURNING id $$");
  open(options(1));
  const Statement add = insert();
  const Statement writes = prepare("SELECT writes(:n::int)");
  const Statement makes_writable = prepare("SELECT set_config('transaction_read_only', 'off', true)");
  const Statement ask =
      prepare("SELECT count(*) || current_setting('transaction_read_only') || current_setting('app.x') FROM written");
  const std::vector<Setting> first{{"app.x", "first"}};
  const std::vector<Setting> second{{"app.x", "second"}};
  // The order of the statements makes no difference.
  for (const bool begins_reading : {true, false}) {
    auto transaction = database->begin({});
    const auto state = [&](const std::vector<Setting>& settings, bool reads) {
      transaction->renew(settings, reads);
      const auto told = execute(*transaction, ask);
      return told ? std::string(told->rows.row(0)[0].view()) : told.error().message;
    };
    if (begins_reading) EXPECT_EQ(state(first, true), "0onfirst");
    transaction->renew(first, false);
    EXPECT_TRUE(execute(*transaction, add, {"1", "a"}));
    EXPECT_EQ(state(second, true), "1onsecond") << "it sees what has been written before";
    EXPECT_EQ(state(first, true), "1onfirst");
    EXPECT_EQ(state(second, false), "1offsecond");
    transaction->renew(first, false);
    EXPECT_TRUE(execute(*transaction, writes, {"2"}));
    EXPECT_TRUE(execute(*transaction, add, {"3", "b"})) << "the call that writes goes on";
    ASSERT_TRUE(run(transaction->commit()));
    EXPECT_EQ(written(), "1=a 2=f 3=b");
    for (const Statement* refused : {&writes, &makes_writable}) {
      transaction = database->begin({});
      if (!begins_reading) {
        transaction->renew(first, false);
        EXPECT_TRUE(execute(*transaction, add, {"4", "c"}));
      }
      transaction->renew(first, true);
      const auto done = refused == &writes ? execute(*transaction, writes, {"5"}) : execute(*transaction, *refused);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().sqlstate, refused == &writes ? "25006" : "25001") << done.error().message;
      transaction.reset();
      EXPECT_EQ(written(), "1=a 2=f 3=b") << "and all of it is rolled back";
    }
    psql("DELETE FROM written");
  }
  EXPECT_EQ(database->counters().opened, 1u);
}

TEST_F(PostgresTransaction, ARefusedSettingRefusesTheTransaction) {
  open(options(1));
  const Statement add = insert();
  const std::vector<Setting> settings{{"no setting of this name!", "x"}};
  auto transaction = database->begin({.settings = settings});
  const auto refused = execute(*transaction, add, {"1", "a"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().failure, Failure::statement);
  transaction.reset();
  EXPECT_EQ(written(), "");
  EXPECT_TRUE(is_usable());
}

}  // namespace
}  // namespace sluice::sql::postgres
