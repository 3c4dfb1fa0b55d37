#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/reactor.h"
#include "core/task.h"
#include "sql/postgres/cluster.h"
#include "sql/postgres/database.h"
#include "sql/postgres/url.h"

// For tests that write: a database on the tests' cluster, a table "written", and an event loop that the test turns.
namespace sluice::sql::postgres::testing {

class PostgresWriting : public ::testing::Test {
 public:
  static Options options(std::size_t pool_size = 4) {
    auto made = options_from_url(Cluster::shared().url());
    EXPECT_TRUE(made) << made.error();
    // Makes the result independent of the machine's load.
    made->slow_ms = 60'000;
    made->wait_ms = made->connect_timeout_ms = 20'000;
    made->pool_size = pool_size;
    return *made;
  }
  void open(Options chosen) {
    database.reset();
    database = std::make_unique<Database>(*reactor, std::move(chosen));
  }
  void SetUp() override {
    psql("DROP TABLE IF EXISTS written; CREATE TABLE written (id int PRIMARY KEY, name text)");
    reactor->turn(reactor->now());  // the setup above took time
    staged_before_ = staged();
    started_ = psql("SELECT clock_timestamp()");
    open(options());
  }
  // Counts temporary tables. If another test has killed the server, its tables stay until autovacuum runs.
  static int staged() { return std::stoi(psql("SELECT count(*) FROM pg_class WHERE relname = 'sluice_stage'")); }
  void TearDown() override {
    tasks.cancel();
    database.reset();
  }

  bool turn_until(const std::function<bool()>& condition, Duration patience = 20s) {
    const Instant end = reactor->now() + patience;
    while (!condition()) {
      if (reactor->now() >= end) return false;
      reactor->turn(reactor->now() + 5ms);
    }
    return true;
  }
  void settle() {
    ASSERT_TRUE(turn_until([&] { return tasks.empty(); })) << "the loop did not finish";
  }
  template <class T>
  core::Task<void> keep(core::Task<T> task, std::optional<T>& into) {
    into.emplace(co_await std::move(task));
  }
  template <class T>
  T run(core::Task<T> task) {
    std::optional<T> result;
    tasks.spawn(keep(std::move(task), result));
    EXPECT_TRUE(turn_until([&] { return result.has_value(); })) << "the loop did not finish";
    return std::move(result.value());
  }

  Statement prepare(std::string_view text) {
    auto prepared = run(database->prepare_writing(text, {}));
    EXPECT_TRUE(prepared) << prepared.error().message;
    return prepared ? std::move(*prepared) : Statement{};
  }
  static std::vector<Argument> texts(std::initializer_list<const char*> values) {
    std::vector<Argument> arguments;
    for (const char* value : values) {
      arguments.push_back({.text = value == nullptr ? std::nullopt : std::optional<std::string_view>(value)});
    }
    return arguments;
  }

  // Reads through another session.
  static std::string psql(const std::string& sql) {
    std::string out = Cluster::shared().psql(sql);
    while (out.ends_with('\n')) out.pop_back();
    return out;
  }
  static std::string written() {
    return psql("SELECT string_agg(id || '=' || coalesce(name, 'null'), ' ' ORDER BY id) FROM written");
  }
  // Whether our sessions reach a state without open transactions and temporary tables.
  bool comes_to_rest() {
    return turn_until([this] {
      return psql(
                 "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sluice' AND xact_start IS NOT "
                 "NULL AND backend_start >= '" +
                 started_ + "'") == "0" &&
             staged() <= staged_before_;
    });
  }
  // Whether the database answers on each connection of the pool.
  bool is_usable() {
    const Statement one =
        prepare("INSERT INTO written VALUES (-1, :name) ON CONFLICT (id) DO UPDATE SET name = excluded.name");
    for (std::size_t i = 0; i < 3; ++i) {
      const auto transaction = database->begin({});
      const auto arguments = texts({"usable"});
      const auto done = run(transaction->finish(one, arguments, 10));
      EXPECT_TRUE(done) << done.error().message;
      if (!done || done->changes != 1) return false;
    }
    psql("DELETE FROM written WHERE id = -1");
    return true;
  }

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  std::unique_ptr<Database> database;
  core::TaskGroup tasks;

 private:
  int staged_before_ = 0;
  std::string started_;  // sessions of other tests, whose clients have disconnected, may still be active
};

}  // namespace sluice::sql::postgres::testing
