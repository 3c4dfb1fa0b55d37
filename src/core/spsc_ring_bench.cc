#include <atomic>
#include <cstdint>
#include <thread>

#include <benchmark/benchmark.h>

#include "core/spsc_ring.h"

namespace sluice::core {
namespace {

// Both threads poll. A thread that has polled for long lets others run: on a busy machine, its peer may not be running.
class Polling {
 public:
  void again() {
    if (++times_ % 4096 == 0) std::this_thread::yield();
  }

 private:
  unsigned times_ = 0;
};

void spin(std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) benchmark::DoNotOptimize(i);
}

constexpr std::uint64_t end_of_stream = 0;

// Takes values until end_of_stream, with `work` steps of computation for each.
void consume(SpscRing<std::uint64_t>& ring, std::int64_t work) {
  Polling polling;
  for (;;) {
    const std::uint64_t* const value = ring.front();
    if (value == nullptr) {
      polling.again();
      continue;
    }
    const bool is_over = *value == end_of_stream;
    ring.pop();
    if (is_over) return;
    spin(work);
  }
}

// Counts refused pushes.
std::uint64_t push(SpscRing<std::uint64_t>& ring, std::uint64_t value) {
  std::uint64_t refused = 0;
  Polling polling;
  while (!ring.try_emplace(value)) {
    ++refused;
    polling.again();
  }
  return refused;
}

// A million values from one thread to another. The time ends when the consumer has taken the last one.
void stream(benchmark::State& state, std::int64_t work, std::uint64_t values) {
  SpscRing<std::uint64_t> ring(static_cast<std::size_t>(state.range(0)));
  std::uint64_t refused = 0;
  for (auto _ : state) {
    std::thread consumer([&] { consume(ring, work); });
    for (std::uint64_t i = 1; i <= values; ++i) refused += push(ring, i);
    push(ring, end_of_stream);
    consumer.join();
  }
  const std::int64_t total = state.iterations() * static_cast<std::int64_t>(values);
  state.SetItemsProcessed(total);
  state.counters["per_value"] =
      benchmark::Counter(static_cast<double>(total), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["refused_per_value"] = static_cast<double>(refused) / static_cast<double>(total);
}

void spsc_two_threads(benchmark::State& state) { stream(state, 0, 1'000'000); }
BENCHMARK(spsc_two_threads)
    ->Arg(1024)
    ->Arg(4096)
    ->Arg(16 * 1024)
    ->Arg(64 * 1024)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

constexpr std::int64_t slow_work = 200;

// The consumer is the slower side, so the ring is full nearly all the time. Compare `per_value` with the time of
// slow_consumer_alone: the difference is the price of the backpressure.
void spsc_slow_consumer(benchmark::State& state) { stream(state, slow_work, 200'000); }
BENCHMARK(spsc_slow_consumer)->Arg(1024)->Arg(64 * 1024)->UseRealTime()->Unit(benchmark::kMillisecond);

void slow_consumer_alone(benchmark::State& state) {
  for (auto _ : state) spin(slow_work);
}
BENCHMARK(slow_consumer_alone);

// One value there and one back; the next one leaves when it has come back.
void spsc_ping_pong(benchmark::State& state) {
  SpscRing<std::uint64_t> there(1024);
  SpscRing<std::uint64_t> back(1024);
  std::thread echo([&] {
    Polling polling;
    for (;;) {
      const std::uint64_t* const value = there.front();
      if (value == nullptr) {
        polling.again();
        continue;
      }
      const std::uint64_t got = *value;
      there.pop();
      if (got == end_of_stream) return;
      push(back, got);
    }
  });
  std::uint64_t number = 0;
  Polling polling;
  for (auto _ : state) {
    push(there, ++number);
    while (back.front() == nullptr) polling.again();
    back.pop();
  }
  push(there, end_of_stream);
  echo.join();
}
BENCHMARK(spsc_ping_pong)->UseRealTime();

}  // namespace
}  // namespace sluice::core
