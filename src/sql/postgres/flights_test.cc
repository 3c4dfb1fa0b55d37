// Transactions of one statement, which share a connection.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sql/postgres/may_fly.h"
#include "sql/postgres/writing_fixture.h"

namespace sluice::sql::postgres {
namespace {

class PostgresFlights : public testing::PostgresWriting {
 public:
  using Outcome = std::optional<Result<Written>>;

  // One connection, which has the plan of `insert`.
  void open_one(Options chosen = options(1)) {
    open(std::move(chosen));
    insert = prepare("INSERT INTO written VALUES (:id, :name)");
    EXPECT_TRUE(run(write(0, "first")));
  }
  core::Task<Result<Written>> write(int id, std::string name, std::vector<Setting> settings = {}) {
    const std::string text = std::to_string(id);
    const Argument arguments[] = {{.text = text}, {.text = name}};
    const auto transaction = database->begin({.settings = settings});
    co_return co_await transaction->finish(insert, arguments, SIZE_MAX);
  }
  Outcome& start(int id, std::string name, std::vector<Setting> settings = {}) {
    outcomes_.push_back(std::make_unique<Outcome>());
    tasks.spawn(keep(write(id, std::move(name), std::move(settings)), *outcomes_.back()));
    return *outcomes_.back();
  }
  // The name of a row chooses a trigger: a pause in the statement, or a pause or an error at its commit.
  static void add_triggers() {
    psql(
        "CREATE OR REPLACE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN "
        "NEW; END $$;"
        "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused at commit' "
        "USING ERRCODE = '23514'; END $$;"
        "CREATE TRIGGER now BEFORE INSERT ON written FOR EACH ROW WHEN (NEW.name = 'pause') EXECUTE FUNCTION pause();"
        "CREATE CONSTRAINT TRIGGER later AFTER INSERT ON written DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "WHEN (NEW.name = 'pause at commit') EXECUTE FUNCTION pause();"
        "CREATE CONSTRAINT TRIGGER never AFTER INSERT ON written DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
        "WHEN (NEW.name = 'refuse at commit') EXECUTE FUNCTION refuse()");
  }
  static std::string ids() { return psql("SELECT string_agg(id::text, ' ' ORDER BY id) FROM written"); }
  // Waits until the server executes an INSERT that waits for this.
  bool waits_for(std::string_view event) {
    const std::string sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = '" + std::string(event) + "'";
    return turn_until([&] { return psql(sql) != "0"; });
  }
  static void cancel(std::string_view event) {
    psql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = '" + std::string(event) + "'");
  }
  static void wait_for_standby(bool waits) {
    psql(waits ? "ALTER SYSTEM SET synchronous_standby_names = 'nobody'"
               : "ALTER SYSTEM RESET synchronous_standby_names");
    psql("SELECT pg_reload_conf()");
  }
  void TearDown() override {
    wait_for_standby(false);
    outcomes_.clear();
    testing::PostgresWriting::TearDown();
  }
  bool all_ended() {
    return turn_until(
        [this] { return std::ranges::all_of(outcomes_, [](const auto& one) { return one->has_value(); }); });
  }

  std::vector<const Outcome*> started() const {
    std::vector<const Outcome*> all;
    for (const auto& one : outcomes_) all.push_back(one.get());
    return all;
  }

  Statement insert;

 private:
  std::vector<std::unique_ptr<Outcome>> outcomes_;
};

TEST_F(PostgresFlights, AreAcknowledgedWhenTheyAreCommittedAndDisturbNobody) {
  open_one();
  add_triggers();
  const auto before = database->counters();
  std::vector<Outcome*> outcomes;
  for (int id = 1; id <= 20; ++id) {
    outcomes.push_back(&start(id == 7 ? 5 : id, id == 11 ? "refuse at commit" : "row"));
  }
  ASSERT_TRUE(all_ended());
  for (int id = 1; id <= 20; ++id) {
    const auto& outcome = **outcomes[static_cast<std::size_t>(id - 1)];
    SCOPED_TRACE(id);
    ASSERT_EQ(outcome.has_value(), id != 7 && id != 11) << outcome.error().message;
    if (outcome) {
      EXPECT_EQ(outcome->changes, 1u);
    } else {
      EXPECT_EQ(outcome.error().sqlstate, id == 7 ? "23505" : "23514");
      EXPECT_EQ(outcome.error().failure, Failure::statement);
      EXPECT_EQ(outcome.error().at_commit, id == 11);
    }
  }
  EXPECT_EQ(ids(), "0 1 2 3 4 5 6 8 9 10 12 13 14 15 16 17 18 19 20");
  EXPECT_EQ(database->counters().shared_requests - before.shared_requests, 20u);
  EXPECT_EQ(database->counters().exclusive_requests, before.exclusive_requests);
  EXPECT_EQ(database->counters().opened, 1u);
  EXPECT_TRUE(comes_to_rest());
}

TEST_F(PostgresFlights, HaveTheirOwnRoleAndSettings) {
  psql(
      "DROP ROLE IF EXISTS writer_a; DROP ROLE IF EXISTS writer_b; CREATE ROLE writer_a; CREATE ROLE writer_b;"
      "GRANT INSERT ON written TO writer_a, writer_b;"
      "CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
      "NEW.name := current_user || ' ' || coalesce(current_setting('app.own', true), '') || ' ' || "
      "coalesce(current_setting('app.left', true), '');"
      "PERFORM set_config('app.left', 'left', false), set_config('default_transaction_read_only', 'on', false), "
      "set_config('statement_timeout', '1', false), pg_advisory_lock(4711); RETURN NEW; END $$;"
      "CREATE TRIGGER note BEFORE INSERT ON written FOR EACH ROW EXECUTE FUNCTION note()");
  open_one();
  for (const bool primes : {true, false}) {  // the first with a role has to prepare its plan
    for (int i = 1; i <= 8; ++i) {
      const std::string role = i % 2 != 0 ? "writer_a" : "writer_b";
      start(i + (primes ? 0 : 10), "", {{"role", role}, {"app.own", std::to_string(i)}});
    }
    auto& refused = start(99, "", {{"role", "nobody_has_it"}, {"app.own", "x"}});
    start(primes ? 9 : 19, "");
    ASSERT_TRUE(all_ended());
    ASSERT_FALSE(*refused);
    EXPECT_EQ(refused->error().failure, Failure::not_allowed) << refused->error().message;
  }
  EXPECT_GT(database->counters().shared_requests, 8u);
  EXPECT_EQ(
      psql("SELECT string_agg(name, ',' ORDER BY id) FROM written WHERE id > 10"),
      "writer_a 1 ,writer_b 2 ,writer_a 3 ,writer_b 4 ,writer_a 5 ,writer_b 6 ,writer_a 7 ,writer_b 8 ,postgres  ");
  EXPECT_TRUE(comes_to_rest());
  EXPECT_TRUE(turn_until([] { return psql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0"; }));
  psql("DROP TABLE written; DROP ROLE writer_a; DROP ROLE writer_b; DROP FUNCTION note CASCADE");
}

TEST_F(PostgresFlights, AreNotCancelledWhileOthersWait) {
  auto chosen = options(1);
  chosen.slow_ms = 1000;
  open_one(std::move(chosen));
  psql(
      "CREATE OR REPLACE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN "
      "NEW; END $$; CREATE TRIGGER now BEFORE INSERT ON written FOR EACH ROW WHEN (NEW.name = 'pause') EXECUTE "
      "FUNCTION pause()");
  core::TaskGroup leaves;
  Outcome left;
  leaves.spawn(keep(write(1, "pause"), left));
  auto& stays = start(2, "row");
  ASSERT_TRUE(waits_for("PgSleep"));
  leaves.cancel();
  ASSERT_TRUE(all_ended());
  EXPECT_TRUE(*stays);
  EXPECT_EQ(ids(), "0 1 2");
  EXPECT_EQ(database->counters().cancels, 0u);
  // Nobody waits for this one. It is sent alone on its connection, because the one above was slow.
  leaves.spawn(keep(write(3, "pause"), left));
  ASSERT_TRUE(waits_for("PgSleep"));
  leaves.cancel();
  EXPECT_TRUE(comes_to_rest());
  EXPECT_EQ(database->counters().cancels, 1u);
  EXPECT_EQ(ids(), "0 1 2");
}

TEST_F(PostgresFlights, AnAbandonedOneIsCancelledIfItIsTheOnlyOne) {
  auto chosen = options(1);
  chosen.slow_ms = 50;
  open_one(std::move(chosen));
  add_triggers();
  core::TaskGroup leaves;
  Outcome left;
  leaves.spawn(keep(write(1, "pause"), left));
  ASSERT_TRUE(waits_for("PgSleep"));
  leaves.cancel();
  EXPECT_TRUE(comes_to_rest());
  EXPECT_GT(database->counters().cancels, 0u);
  EXPECT_EQ(ids(), "0");
  EXPECT_TRUE(is_usable());
}

TEST_F(PostgresFlights, ACancelBySomebodyElseIsToldAsTheServerTellsIt) {
  struct Case {
    const char* name;
    const char* event;
    bool at_commit;
  };
  for (const auto& [name, event, at_commit] :
       {Case{"pause", "PgSleep", false}, Case{"pause at commit", "PgSleep", true}}) {
    SCOPED_TRACE(name);
    psql("DROP TABLE written; CREATE TABLE written (id int PRIMARY KEY, name text)");
    add_triggers();
    open_one();
    const auto& hit = start(1, name);
    const auto& behind = start(2, "row");
    ASSERT_TRUE(waits_for(event));
    cancel(event);
    ASSERT_TRUE(all_ended());
    ASSERT_FALSE(*hit);
    EXPECT_EQ(hit->error().sqlstate, "57014");
    EXPECT_EQ(hit->error().failure, Failure::statement);
    EXPECT_EQ(hit->error().at_commit, at_commit);
    EXPECT_TRUE(*behind);
    EXPECT_EQ(ids(), "0 2");
  }
}

// The server acknowledges a commit whose wait for the standby somebody cancels, and warns.
TEST_F(PostgresFlights, ACancelledWaitForTheStandbyIsNoSuccess) {
  open_one();
  for (const bool shared : {true, false}) {
    SCOPED_TRACE(shared);
    wait_for_standby(true);
    Outcome outcome;
    if (shared) {
      tasks.spawn(keep(write(1, "row"), outcome));
    } else {
      tasks.spawn(keep(
          [](PostgresFlights& self) -> core::Task<Result<Written>> {
            const Argument arguments[] = {{.text = "2"}, {.text = "row"}};
            const auto transaction = self.database->begin({.must_do = true});
            co_return co_await transaction->finish(self.insert, arguments, SIZE_MAX);
          }(*this),
          outcome));
    }
    ASSERT_TRUE(waits_for("SyncRep"));
    cancel("SyncRep");
    ASSERT_TRUE(turn_until([&] { return outcome.has_value(); }));
    ASSERT_FALSE(*outcome);
    EXPECT_EQ(outcome->error().failure, Failure::lost);
    EXPECT_TRUE(outcome->error().message.contains("synchronous replication")) << outcome->error().message;
    wait_for_standby(false);
    EXPECT_TRUE(is_usable());
  }
  EXPECT_EQ(ids(), "0 1 2");
}

TEST_F(PostgresFlights, AStandbyThatIsAwayEndsInTimeoutsAndLeavesNoProcess) {
  auto chosen = options(1);
  chosen.statement_timeout_ms = 500;
  chosen.slow_ms = 100;
  open_one(std::move(chosen));
  wait_for_standby(true);
  for (int id = 1; id <= 3; ++id) start(id, "row");
  ASSERT_TRUE(waits_for("SyncRep"));
  ASSERT_TRUE(all_ended());
  for (const Outcome* outcome : started()) {
    ASSERT_FALSE(**outcome);
    EXPECT_EQ((*outcome)->error().failure, Failure::timed_out);
  }
  EXPECT_TRUE(
      turn_until([] { return psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "0"; }));
  wait_for_standby(false);
  EXPECT_TRUE(is_usable());
  EXPECT_TRUE(ids().starts_with("0 1")) << ids();
}

TEST_F(PostgresFlights, DoNotShareAConnectionWithReads) {
  open_one();
  add_triggers();
  auto name = run(database->prepare("SELECT name FROM written WHERE id = :id::int", {}));
  auto slow = run(database->prepare("SELECT pg_sleep(60)::text AS name WHERE :id <> ''", {}));
  ASSERT_TRUE(name && slow);
  name->one_row = slow->one_row = true;
  const auto id = texts({"0"});
  std::optional<Result<std::unique_ptr<Cursor>>> cursor;
  const auto read = [&](const Statement& statement) {
    cursor.reset();
    tasks.spawn(keep(
        [](Database& from, const Statement& asked,
           std::span<const Argument> arguments) -> core::Task<Result<std::unique_ptr<Cursor>>> {
          co_return co_await from.query(asked, arguments, {});
        }(*database, statement, id),
        cursor));
  };
  const auto& sent = database->counters().shared_requests;
  auto before = sent;
  auto& paused = start(1, "pause");
  ASSERT_TRUE(waits_for("PgSleep"));
  read(*name);
  EXPECT_EQ(sent, before + 1) << "the read waits";
  cancel("PgSleep");
  ASSERT_TRUE(turn_until([&] { return paused && cursor; }));
  EXPECT_TRUE(!*paused && *cursor);
  cursor.reset();
  before = sent;
  read(*slow);
  ASSERT_TRUE(waits_for("PgSleep"));
  auto& waits = start(2, "row");
  EXPECT_EQ(sent, before + 1) << "the write waits";
  cancel("PgSleep");
  ASSERT_TRUE(turn_until([&] { return waits && cursor; }));
  EXPECT_TRUE(*waits && !*cursor);
}

// A write may have settings where reads with settings need BEGIN READ ONLY.
TEST_F(PostgresFlights, WriteWithSettingsWithoutReadOnly) {
  auto chosen = options(1);
  chosen.read_only = false;
  open_one(std::move(chosen));
  const auto before = database->counters().shared_requests;
  for (int id = 1; id <= 3; ++id) {
    const auto done = run(write(id, "row", {{"app.own", "x"}}));
    ASSERT_TRUE(done) << done.error().message;
  }
  EXPECT_EQ(database->counters().shared_requests, before + 3);
  EXPECT_EQ(ids(), "0 1 2 3");
}

TEST_F(PostgresFlights, LeaveTheirConnectionToOthersWhoWait) {
  open_one();
  // Each answer comes alone, so that there are always others in flight.
  psql(
      "CREATE OR REPLACE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN "
      "NEW; END $$; CREATE TRIGGER now BEFORE INSERT ON written FOR EACH ROW EXECUTE FUNCTION pause()");
  const Statement all = prepare("SELECT id FROM written");  // any number of rows: alone on a connection
  bool ends = false;
  int id = 0;
  for (int i = 0; i < 8; ++i) {
    tasks.spawn([](PostgresFlights& self, int& last, bool& end) -> core::Task<void> {
      while (!end) EXPECT_TRUE(co_await self.write(++last, "row"));
    }(*this, id, ends));
  }
  ASSERT_TRUE(turn_until([&] { return id > 20; }));
  bool is_read = false;
  tasks.spawn([](Database& from, const Statement& statement, bool& done) -> core::Task<void> {
    const auto cursor = co_await from.query(statement, {}, {});
    EXPECT_TRUE(cursor);
    done = true;
  }(*database, all, is_read));
  EXPECT_TRUE(turn_until([&] { return is_read; }, 10s));
  ends = true;
  settle();
}

TEST_F(PostgresFlights, ARowThatIsTooLongIsAnErrorThatSaysWhatIsCommitted) {
  auto chosen = options(1);
  chosen.max_row_bytes = 300'000;
  open_one(std::move(chosen));
  insert = prepare("INSERT INTO written VALUES (:id, :name) RETURNING name");
  ASSERT_TRUE(run(write(1, "short")));
  auto& neighbour = start(2, "short");
  auto& outcome = start(3, std::string(400'000, 'x'));
  auto& behind = start(4, "short");
  ASSERT_TRUE(all_ended());
  EXPECT_TRUE(*neighbour && *behind);
  ASSERT_FALSE(*outcome);
  EXPECT_EQ(outcome->error().failure, Failure::statement);
  EXPECT_TRUE(outcome->error().message.contains("committed")) << outcome->error().message;
  ASSERT_TRUE(*behind);
  EXPECT_EQ((*behind)->rows.row(0)[0].view(), "short");
  EXPECT_EQ(ids(), "0 1 2 3 4");
  EXPECT_EQ(database->counters().opened, 1u);
}

// Without `read_only` it has BEGIN and COMMIT. The reset of the write and a SET are sent before it.
TEST_F(PostgresFlights, AFailedQueryBehindAWriteKeepsItsSession) {
  auto chosen = options(1);
  chosen.read_only = false;
  chosen.statement_timeout_ms = 20'000;
  open_one(std::move(chosen));
  auto divides = run(database->prepare("SELECT 1 / length(:text) AS quotient", {}));
  ASSERT_TRUE(divides) << divides.error().message;
  ASSERT_TRUE(run(write(1, "row")));
  const std::vector<Setting> settings = {{"app.own", "x"}};
  const auto empty = texts({""});
  std::optional<Result<std::unique_ptr<Cursor>>> cursor;
  tasks.spawn(keep(
      [](Database& from, const Statement& statement, std::span<const Argument> arguments,
         std::span<const Setting> set) -> core::Task<Result<std::unique_ptr<Cursor>>> {
        co_return co_await from.query(statement, arguments, {.settings = set});
      }(*database, *divides, empty, settings),
      cursor));
  ASSERT_TRUE(turn_until([&] { return cursor.has_value(); }));
  ASSERT_FALSE(*cursor);
  EXPECT_EQ(cursor->error().sqlstate, "22012") << cursor->error().message;
  EXPECT_TRUE(comes_to_rest());
  EXPECT_TRUE(run(write(2, "row")));
  EXPECT_EQ(database->counters().opened, 1u);
}

TEST(MayFly, NamesStatementsThatEndNoTransaction) {
  EXPECT_TRUE(may_fly("INSERT INTO t SELECT 1", false));
  EXPECT_TRUE(may_fly("  -- note\n update t SET a = 1", false));
  EXPECT_TRUE(may_fly("WITH a AS (DELETE FROM b RETURNING *) INSERT INTO c SELECT * FROM a", false));
  EXPECT_FALSE(may_fly("CALL work()", false));
  EXPECT_FALSE(may_fly("DO $$ BEGIN COMMIT; END $$", false));
  EXPECT_FALSE(may_fly("TRUNCATE t", false));
}

TEST(MayFly, KnowsWhichReturnOneRow) {
  EXPECT_TRUE(may_fly("INSERT INTO t (a, b) VALUES ($1, (1 + 2)) RETURNING id", true));
  EXPECT_TRUE(may_fly("insert into s.t values ($1) on conflict do nothing returning id", true));
  EXPECT_TRUE(may_fly("INSERT INTO t (a) VALUES (CAST($1 AS character varying(3))) RETURNING id", true));
  EXPECT_FALSE(may_fly("INSERT INTO t VALUES (1), (2) RETURNING id", true));
  EXPECT_FALSE(may_fly("INSERT INTO t VALUES (unnest($1)) RETURNING id", true));
  EXPECT_FALSE(may_fly("INSERT INTO t VALUES (1 + \"f\"(2)) RETURNING id", true));
  EXPECT_FALSE(may_fly("INSERT INTO t SELECT 1 RETURNING id", true));
  EXPECT_FALSE(may_fly("INSERT INTO t (a) SELECT a FROM (VALUES (1), (2)) RETURNING id", true));
  EXPECT_FALSE(may_fly("UPDATE t SET a = 1 RETURNING id", true));
  EXPECT_FALSE(may_fly("SELECT f()", true));
}

}  // namespace
}  // namespace sluice::sql::postgres
