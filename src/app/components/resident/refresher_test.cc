#include "app/components/resident/refresher.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/database_for_tests.h"
#include "core/simulated_reactor.h"

namespace sluice::app {
namespace {

using api::resident::Table;
using api::resident::TableVersion;
using api::resident::TestRows;

class TestProbe final : public sql::ChangeProbe {
 public:
  core::Task<sql::Result<std::uint64_t>> version(core::BlockingPool&, core::Mailbox&) override { co_return says; }
  sql::Result<std::uint64_t> says = 1;
};

class RefresherTest : public testing::Test {
 protected:
  RefresherTest() {
    plan.name = "users";
    plan.shape = {.key = "id", .index = {}, .csv = false, .memory_limit = 1 << 20};
    plan.statement.text = "query";
    plan.timeout = 1s;
    options.notify.value = "users_changed";  // so that only the test causes refreshes
    database.gives(rows(1));
  }
  ~RefresherTest() override { tasks.cancel(); }

  // Rows with ids from 1 to `count`.
  static TestRows rows(int count, bool are_changes = false) {
    std::vector<sql::Column> columns{api::resident::column_of("id", sql::Form::number, 23),
                                     api::resident::column_of("at", sql::Form::number, 20)};
    if (are_changes) columns.push_back(api::resident::column_of("gone", sql::Form::boolean, 16));
    TestRows all(columns);
    for (int id = 1; id <= count; ++id) {
      std::vector<api::resident::TestValue> values{std::to_string(id), std::to_string(id)};
      if (are_changes) values.emplace_back("f");
      all.row(values);
    }
    return all;
  }
  void start() {
    Mark mark;
    mark.probe = probe;
    if (probe) mark.version = 1;
    mark.loaded = reactor.now();
    if (plan.changes) {
      const TestRows first = rows(1);
      const sql::Block block = first.block();
      ASSERT_TRUE(mark.since.note(*api::resident::ValueType::of(block.columns[1]), block.row(0)[1]));
    }
    TableVersion first{.table = table_of(plan.shape, rows(1)), .checked = reactor.now(), .failing = false};
    published = first;
    refresher = std::make_unique<Refresher>(
        Refresher::Surroundings{
            .reactor = reactor, .mailbox = mailbox, .tasks = tasks, .threads = threads, .database = database},
        plan, options, std::move(first), std::move(mark),
        Refresher::Cores{.publish = [this](const TableVersion& version) { return publish(version); },
                         .cut = [this](const Table* table) { return cut(table); }});
  }
  // Releases the versions that readers hold, if `can_cut`.
  core::Task<void> cut(const Table* table) {
    cuts.push_back(table);
    if (can_cut) std::erase_if(held, [&](const auto& one) { return one.get() == table; });
    co_return;
  }
  // Makes readers hold as many retired versions as allowed. The served version then has `most_retired` + 1 rows.
  void hold_as_many_as_there_may_be() {
    for (std::size_t i = 0; i < Refresher::most_retired; ++i) {
      held.push_back(published.table);
      database.gives(rows(static_cast<int>(i) + 2));
      ring();
      EXPECT_EQ(published.table->size(), i + 2);
    }
  }
  core::Task<void> publish(TableVersion version) {
    published = std::move(version);
    ++publications;
    co_return;
  }
  // Pool threads need real time, during which the virtual time hardly advances.
  template <class Check>
  void wait_for(Check check) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!check()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      mailbox.deliver();
      reactor.turn(reactor.now());
      std::this_thread::yield();
    }
  }
  // Rings and waits for one more publication.
  void ring() {
    const int before = publications;
    refresher->ring();
    wait_for([&] { return publications == before + 1; });
  }
  void pass(Duration time) {
    for (const Instant until = reactor.now() + time; reactor.now() < until;) {
      mailbox.deliver();
      reactor.turn(until);
    }
  }

  core::SimulatedReactor reactor{1};
  core::Mailbox mailbox{reactor};
  core::BlockingPool threads{1, 16};
  api::resident::TestDatabase database;
  api::resident::Plan plan;
  api::resident::RefreshOptions options;
  std::shared_ptr<TestProbe> probe;
  core::TaskGroup tasks;
  TableVersion published;
  int publications = 0;
  std::unique_ptr<Refresher> refresher;
  std::vector<std::shared_ptr<const Table>> held;
  std::vector<const Table*> cuts;
  bool can_cut = true;
};

TEST_F(RefresherTest, LoadsWhenItIsRung) {
  start();
  pass(1h);
  EXPECT_EQ(database.asked.size(), 0u);
  database.gives(rows(2));
  const Instant before = reactor.now();
  ring();
  EXPECT_EQ(published.table->size(), 2u);
  EXPECT_FALSE(published.failing);
  EXPECT_GE(published.checked, before);
  const auto counters = refresher->counters();
  EXPECT_EQ(counters.loads, 2u);
  EXPECT_EQ(counters.rows, 2u);
  EXPECT_EQ(counters.unchanged, 0u);
}

TEST_F(RefresherTest, LoadsWhenItIsTime) {
  options.notify.value.clear();
  options.every.value = 1min;
  start();
  pass(59s);
  EXPECT_EQ(database.asked.size(), 0u);
  pass(2s);
  EXPECT_EQ(database.asked.size(), 1u);
}

TEST_F(RefresherTest, DoesNothingWithoutEveryAndNotify) {
  options.notify.value.clear();
  start();
  refresher->ring();
  pass(365 * 24h);
  EXPECT_EQ(database.asked.size(), 0u);
}

TEST_F(RefresherTest, TheSameRowsAreNoNewVersion) {
  start();
  const std::shared_ptr<const Table> first = published.table;
  ring();
  EXPECT_EQ(published.table, first);
  EXPECT_EQ(refresher->counters().loads, 2u);
  EXPECT_EQ(refresher->counters().unchanged, 1u);
}

TEST_F(RefresherTest, WhatTheProbeSaysIsTheSameIsNotRead) {
  probe = std::make_shared<TestProbe>();
  start();
  ring();
  EXPECT_EQ(database.asked.size(), 0u);
  EXPECT_EQ(refresher->counters().unchanged, 1u);
  probe->says = 2;
  database.gives(rows(2));
  ring();
  EXPECT_EQ(published.table->size(), 2u);
  ring();
  EXPECT_EQ(database.asked.size(), 1u);
  // It also queries after `full`, and if the probe fails.
  pass(1h);
  wait_for([&] { return database.asked.size() == 2 && publications == 4; });
  probe->says = std::unexpected(sql::Error{});
  ring();
  EXPECT_EQ(database.asked.size(), 3u);
}

TEST_F(RefresherTest, AFailedLoadKeepsWhatThereWas) {
  start();
  const std::shared_ptr<const Table> first = published.table;
  const Instant checked = published.checked;
  database.fails({sql::Failure::unavailable, {}, "away", 0});
  ring();
  EXPECT_EQ(published.table, first);
  EXPECT_TRUE(published.failing);
  EXPECT_EQ(published.checked, checked) << "its age goes on";
  EXPECT_EQ(refresher->counters().failures, 1u);
  EXPECT_EQ(refresher->counters().loads, 1u);
  EXPECT_GT(refresher->counters().age_s, 0.0);
  // The same happens if the query fails in the middle of its rows.
  database.gives(rows(5));
  database.fails({sql::Failure::lost, {}, "gone", 0}, 4);
  pass(Refresher::first_pause);
  EXPECT_EQ(published.table, first);
  EXPECT_EQ(refresher->counters().failures, 2u);
  database.gives(rows(2));
  pass(2 * Refresher::first_pause);
  wait_for([&] { return !published.failing; });
  EXPECT_EQ(published.table->size(), 2u);
  EXPECT_GT(published.checked, checked);
}

TEST_F(RefresherTest, TriesLessAndLessOften) {
  start();
  database.fails({sql::Failure::unavailable, {}, "away", 0});
  refresher->ring();
  pass(1ms);
  ASSERT_EQ(database.asked.size(), 1u);
  for (Duration pause = Refresher::first_pause; pause < 4 * Refresher::longest_pause; pause *= 2) {
    const Duration most = std::min(pause, Refresher::longest_pause);
    const std::size_t before = database.asked.size();
    refresher->ring();  // does not shorten the pause
    pass(most / 2 - 2ms);
    EXPECT_EQ(database.asked.size(), before) << most.count();
    // A pause lasts between `most / 2` and `most`: wait for its end.
    while (database.asked.size() == before) pass(1ms);
    EXPECT_EQ(database.asked.size(), before + 1);
  }
  // A ring during a pause is not lost.
  const std::size_t before = database.asked.size();
  database.gives(rows(2));
  pass(Refresher::longest_pause);
  wait_for([&] { return published.table->size() == 2 && database.asked.size() == before + 2; });
}

TEST_F(RefresherTest, TriesAtOnceWhenTheListenerIsBack) {
  start();
  database.fails({sql::Failure::unavailable, {}, "away", 0});
  refresher->ring();
  pass(10 * Refresher::longest_pause);
  // The database is still unavailable: the pauses start again with the shortest one.
  std::size_t before = database.asked.size();
  refresher->resumed();
  pass(1ms);
  EXPECT_EQ(database.asked.size(), before + 1);
  pass(Refresher::first_pause);
  EXPECT_EQ(database.asked.size(), before + 2);
  database.gives(rows(2));
  refresher->resumed();
  wait_for([&] { return !published.failing; });
  EXPECT_EQ(published.table->size(), 2u);
}

// Slow clients hold versions: while four are held, no new version is loaded.
TEST_F(RefresherTest, FourVersionsWaitForSlowClients) {
  options.hold.value = {};
  start();
  hold_as_many_as_there_may_be();
  const std::size_t asked = database.asked.size();
  const std::size_t served = published.table->size();
  database.gives(rows(100));
  refresher->ring();
  wait_for([&] { return database.asked.size() == asked + 1; });
  wait_for([&] { return refresher->counters().loads == Refresher::most_retired + 2; });
  pass(Refresher::most_wait - 100ms);
  EXPECT_FALSE(published.failing) << "it may be over in a moment";
  pass(1h);
  EXPECT_EQ(database.asked.size(), asked + 1) << "nothing more is loaded";
  EXPECT_EQ(published.table->size(), served);
  EXPECT_EQ(held.front()->size(), 1u) << "what is held stays";
  EXPECT_TRUE(published.failing) << "and it is said";
  EXPECT_EQ(refresher->counters().failures, 1u);
  held.erase(held.begin() + 1);
  pass(2 * Refresher::retired_look);
  wait_for([&] { return published.table->size() == 100; });
  EXPECT_EQ(database.asked.size(), asked + 1);
  EXPECT_FALSE(published.failing);
}

// If nothing has changed, slow clients delay nothing.
TEST_F(RefresherTest, SlowClientsHoldUpNothingWhereNothingHasChanged) {
  options.hold.value = 10s;
  start();
  hold_as_many_as_there_may_be();
  pass(1h);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    ring();
    EXPECT_EQ(refresher->counters().unchanged, i);
    EXPECT_FALSE(published.failing);
  }
  pass(1h);
  EXPECT_TRUE(cuts.empty());
  EXPECT_EQ(held.size(), Refresher::most_retired);
}

// A client that has held the oldest version for too long is cut, and then the new version is loaded.
TEST_F(RefresherTest, WhoHoldsTheOldestVersionForTooLongIsCut) {
  options.hold.value = 10s;
  start();
  hold_as_many_as_there_may_be();
  pass(1h);
  EXPECT_TRUE(cuts.empty()) << "nobody waits";
  const Table* const oldest = held.front().get();
  database.gives(rows(100));
  refresher->ring();
  wait_for([&] { return !cuts.empty(); });
  pass(100ms);
  wait_for([&] { return published.table->size() == 100; });
  EXPECT_EQ(cuts, std::vector{oldest});
  EXPECT_EQ(held.size(), Refresher::most_retired - 1);
  wait_for([&] { return refresher->counters().cut == 1; });
  EXPECT_EQ(refresher->counters().failures, 0u);
}

TEST_F(RefresherTest, WhoHasJustBegunIsNotCut) {
  options.hold.value = 10s;
  start();
  hold_as_many_as_there_may_be();
  database.gives(rows(100));
  refresher->ring();
  wait_for([&] { return refresher->counters().loads == Refresher::most_retired + 2; });
  pass(9s);
  EXPECT_TRUE(cuts.empty());
  EXPECT_TRUE(published.failing);
  pass(1s + 100ms);
  EXPECT_EQ(cuts.size(), 1u);
  wait_for([&] { return published.table->size() == 100; });
  EXPECT_FALSE(published.failing);
}

TEST_F(RefresherTest, WhatCannotBeCutDoesNotStandBeforeTheOthers) {
  options.hold.value = 10s;
  can_cut = false;
  start();
  hold_as_many_as_there_may_be();
  pass(10s);
  database.gives(rows(100));
  refresher->ring();
  wait_for([&] { return !cuts.empty(); });
  pass(5s);
  ASSERT_GE(cuts.size(), 5u);
  EXPECT_LE(cuts.size(), 7u);
  for (std::size_t i = 0; i < cuts.size(); ++i) EXPECT_EQ(cuts[i], held[i % held.size()].get()) << i;
  EXPECT_EQ(refresher->counters().cut, 0u);
  can_cut = true;
  pass(2s);
  wait_for([&] { return published.table->size() == 100; });
  wait_for([&] { return refresher->counters().cut == 1; });
}

// Versions that nobody reads do not count.
TEST_F(RefresherTest, VersionsThatNobodyReadsGo) {
  start();
  std::weak_ptr<const Table> first = published.table;
  for (int i = 0; i < 20; ++i) {
    database.gives(rows(i + 2));
    ring();
    pass(2 * Refresher::retired_look);
  }
  wait_for([&] { return first.expired(); });
  EXPECT_EQ(published.table->size(), 21u);
}

TEST_F(RefresherTest, ChangesAloneAreReadUntilAFullLoadIsDue) {
  plan.changes.emplace();
  plan.changes->statement.text = "changes";
  plan.changes->shape = {.version = "at", .deleted = "gone"};
  options.full.value = 1min;
  start();
  database.gives(rows(2, true));
  ring();
  EXPECT_EQ(published.table->size(), 2u);
  EXPECT_EQ(database.asked, (std::vector<std::string>{"changes 1"}));
  EXPECT_EQ(refresher->counters().partial, 1u);
  database.gives(rows(0, true));
  ring();
  EXPECT_EQ(database.asked.back(), "changes 2");
  EXPECT_EQ(refresher->counters().unchanged, 1u);
  // A full load without ring(), after a minute.
  database.gives(rows(5));
  pass(1min);
  wait_for([&] { return published.table->size() == 5; });
  EXPECT_EQ(database.asked.back(), "query");
  EXPECT_EQ(refresher->counters().partial, 2u);
}

TEST_F(RefresherTest, ChangesThatDoNotFitMakeAllBeRead) {
  plan.changes.emplace();
  plan.changes->statement.text = "changes";
  plan.changes->shape = {.version = "at", .deleted = "gone"};
  start();
  database.gives(rows(2));  // without the column that marks deleted rows
  refresher->ring();
  wait_for([&] { return refresher->counters().failures == 1; });
  EXPECT_TRUE(published.failing);
  EXPECT_EQ(database.asked.back(), "changes 1");
  database.gives(rows(3));
  pass(2s);
  wait_for([&] { return published.table->size() == 3; });
  EXPECT_EQ(database.asked.back(), "query");
  EXPECT_FALSE(published.failing);
  // After that, only the changes are loaded again.
  database.gives(rows(4, true));
  ring();
  EXPECT_EQ(database.asked.back().substr(0, 7), "changes");
}

}  // namespace
}  // namespace sluice::app
