#include <charconv>
#include <filesystem>
#include <string>

#include <benchmark/benchmark.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "sql/sqlite/database.h"

namespace sluice::sql {
namespace {

// A table of films like the example's, and one core's loop.
class Films {
 public:
  static constexpr int count = 100'000;

  Films() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-bench-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    SqliteOptions options;
    options.path = directory_ / "films.db";
    sqlite3* file = nullptr;
    sqlite3_open(options.path.c_str(), &file);
    const std::string fill =
        "PRAGMA synchronous = OFF; CREATE TABLE films(id INTEGER PRIMARY KEY, slug TEXT UNIQUE, adult BOOLEAN, name_en "
        "TEXT,"
        " popularity REAL, blob JSON); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < " +
        std::to_string(count) +
        ") INSERT INTO films SELECT i, 'film-' || i, i % 7 = 0, 'The Film Number ' || i, i / 3.0,"
        " json_object('year', 1900 + i % 120, 'cast', json_array('Somebody Known', 'Somebody Else'), 'plot',"
        " 'A long enough sentence about what happens in this film, and to whom.') FROM c";
    sqlite3_exec(file, fill.c_str(), nullptr, nullptr, nullptr);
    sqlite3_close(file);
    database = SqliteDatabase::open(options, *reactor, mailbox, threads).value();
  }
  Films(const Films&) = delete;
  ~Films() {
    database.reset();
    std::filesystem::remove_all(directory_);
  }

  Statement prepare(std::string_view text) {
    Statement statement;
    core::TaskGroup group;
    group.spawn(store(*database, text, statement));
    return statement;
  }
  void turn() {
    reactor->turn(reactor->now());
    mailbox.deliver();
  }

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  core::Mailbox mailbox{*reactor};
  core::BlockingPool threads{1, 64};
  std::unique_ptr<SqliteDatabase> database;

 private:
  static core::Task<void> store(SqliteDatabase& from, std::string_view text, Statement& into) {
    into = (co_await from.prepare(text, {})).value();
  }
  std::filesystem::path directory_;
};

void look_up(benchmark::State& state, std::string_view text, std::string_view prefix, ParameterType type) {
  Films films;
  const Statement statement = films.prepare(text);
  char key[32];
  std::size_t turn = 0;
  std::uint32_t random = 1;
  for (auto _ : state) {
    random = random * 1664525 + 1013904223;
    char* end = std::copy(prefix.begin(), prefix.end(), key);
    end = std::to_chars(end, key + sizeof key, 1 + (random >> 8) % Films::count).ptr;
    const Argument argument{std::string_view(key, static_cast<std::size_t>(end - key)), type};
    auto cursor = films.database->query(statement, {&argument, 1}, {}).take();
    auto block = (*cursor)->next().take();
    if (block->rows != 1) state.SkipWithError("not found");
    benchmark::DoNotOptimize(block->fields.data());
    if (++turn % static_cast<std::size_t>(state.range(0)) == 0) films.turn();
  }
  state.SetItemsProcessed(state.iterations());
}

// The argument is the number of look-ups in one turn of the loop; they share a read transaction.
void by_primary_key(benchmark::State& state) {
  look_up(state, "SELECT * FROM films WHERE id = :id", "", ParameterType::integer);
}
void by_unique_index(benchmark::State& state) {
  look_up(state, "SELECT * FROM films WHERE slug = :slug", "film-", ParameterType::text);
}
BENCHMARK(by_primary_key)->Arg(1)->Arg(16)->Arg(64);
BENCHMARK(by_unique_index)->Arg(1)->Arg(16)->Arg(64);

core::Task<void> drain(SqliteDatabase& from, const Statement& statement, std::size_t& rows, bool& done) {
  auto cursor = co_await from.query(statement, {}, {});
  for (;;) {
    auto block = co_await (*cursor)->next();
    rows += block->rows;
    if (block->last) break;
  }
  done = true;
}

void scan(benchmark::State& state) {
  Films films;
  const Statement statement = films.prepare("SELECT * FROM films");
  std::size_t rows = 0;
  for (auto _ : state) {
    bool done = false;
    core::TaskGroup group;
    group.spawn(drain(*films.database, statement, rows, done));
    while (!done) {
      films.reactor->turn(films.reactor->now() + std::chrono::seconds(1));
      films.mailbox.deliver();
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(rows));
}
BENCHMARK(scan)->UseRealTime();

}  // namespace
}  // namespace sluice::sql
