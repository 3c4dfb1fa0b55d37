#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>

#include <benchmark/benchmark.h>

#include "sql/postgres/database.h"
#include "sql/postgres/url.h"

// Needs a separate server with pgbench's tables (pgbench -i -s 20 gives 2,000,000 accounts); SLUICE_BENCH_POSTGRES is
// its URL. The rivals are pgbench -S -M prepared -c 8 and bench/pg_floor.py.
namespace sluice::sql::postgres {
namespace {

using core::Task;

struct Bench {
  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  std::unique_ptr<Database> database;
  core::TaskGroup tasks;

  explicit Bench(std::size_t pipeline = 64) {
    const char* url = std::getenv("SLUICE_BENCH_POSTGRES");
    auto options = options_from_url(url == nullptr ? "" : url);
    if (!options) throw std::runtime_error("SLUICE_BENCH_POSTGRES: " + options.error());
    options->pipeline = pipeline;
    database = std::make_unique<Database>(*reactor, std::move(*options));
  }
  void settle() {
    while (!tasks.empty()) reactor->turn(reactor->now() + 100ms);
  }
  Statement prepare(std::string sql, bool one_row) {
    std::optional<Result<Statement>> result;
    tasks.spawn([](Database& db, std::string text, std::optional<Result<Statement>>& into) -> Task<void> {
      into = co_await db.prepare(text, {});
    }(*database, std::move(sql), result));
    settle();
    if (!*result) throw std::runtime_error(result->error().message);
    (*result)->one_row = one_row;
    return std::move(**result);
  }
};

// 64 clients; each runs one look-up by key at a time.
void point_lookups(benchmark::State& state) {
  Bench bench(static_cast<std::size_t>(state.range(0)));
  const Statement statement = bench.prepare("SELECT abalance FROM pgbench_accounts WHERE aid = :aid", true);
  const std::size_t batch = 20'000;
  std::minstd_rand random(1);
  for (auto _ : state) {
    std::size_t left = batch;
    for (int client = 0; client < 64; ++client) {
      bench.tasks.spawn(
          [](Database& db, const Statement& s, std::size_t& remaining, std::minstd_rand& dice) -> Task<void> {
            while (remaining != 0) {
              --remaining;
              const std::string key = std::to_string(1 + dice() % 100'000);
              const Argument argument{key, ParameterType::text};
              auto cursor = co_await db.query(s, {&argument, 1}, {});
              if (!cursor) throw std::runtime_error(cursor.error().message);
              auto block = co_await (*cursor)->next();
              if (!block || block->rows != 1) throw std::runtime_error("not one row");
              benchmark::DoNotOptimize(block->fields.data());
            }
          }(*bench.database, statement, left, random));
    }
    bench.settle();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * batch));
}
BENCHMARK(point_lookups)
    ->Arg(8)
    ->Arg(16)
    ->Arg(32)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

// Reads all rows of a large table, splits them into fields and discards them.
void drain(benchmark::State& state) {
  Bench bench;
  const Statement statement = bench.prepare("SELECT * FROM pgbench_accounts", false);
  std::size_t rows = 0;
  for (auto _ : state) {
    bench.tasks.spawn([](Database& db, const Statement& s, std::size_t& count) -> Task<void> {
      auto cursor = co_await db.query(s, {}, {});
      if (!cursor) throw std::runtime_error(cursor.error().message);
      for (;;) {
        auto block = co_await (*cursor)->next();
        if (!block) throw std::runtime_error(block.error().message);
        count += block->rows;
        if (block->last) co_return;
      }
    }(*bench.database, statement, rows));
    bench.settle();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(rows));
}
BENCHMARK(drain)->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime()->Iterations(5);

}  // namespace
}  // namespace sluice::sql::postgres
