#include <cstdint>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "core/timer.h"

namespace sluice::core {
namespace {

using namespace std::chrono_literals;

void ignore(Timer&) noexcept {}

// The timers of connections that are idle: due within 60 seconds, spread evenly.
struct Timers {
  Timers(TimerWheel& wheel, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      all.push_back(std::make_unique<Timer>(ignore));
      wheel.schedule(*all.back(), Instant{} + 1s + 59s * i / count);
    }
  }
  std::vector<std::unique_ptr<Timer>> all;
};

// One more timer beside `range` others is armed and disarmed, as for a request that ends before its deadline.
void timer_schedule_and_cancel(benchmark::State& state) {
  TimerWheel wheel(Instant{});
  const Timers others(wheel, state.range(0));
  Timer timer(ignore);
  std::int64_t number = 0;
  for (auto _ : state) {
    wheel.schedule(timer, Instant{} + 1s + 1ms * (++number % 59'000));
    wheel.cancel(timer);
  }
}
BENCHMARK(timer_schedule_and_cancel)->Arg(0)->Arg(1'000)->Arg(100'000);

// An armed timer is moved, as when a connection is heard of again. All timers in turn.
void timer_reschedule(benchmark::State& state) {
  TimerWheel wheel(Instant{});
  const Timers timers(wheel, state.range(0));
  std::size_t at = 0;
  std::int64_t number = 0;
  for (auto _ : state) {
    wheel.schedule(*timers.all[at], Instant{} + 1s + 1ms * (++number * 7 % 59'000));
    if (++at == timers.all.size()) at = 0;
  }
}
BENCHMARK(timer_reschedule)->Arg(1)->Arg(1'000)->Arg(100'000);

// A turn in which nothing is due: one tick passes, and the loop asks how long it may wait.
void timer_tick_nothing_due(benchmark::State& state) {
  TimerWheel wheel(Instant{});
  Timer timer(ignore);
  wheel.schedule(timer, Instant{} + std::chrono::hours(24 * 365));
  Instant now{};
  for (auto _ : state) {
    now += 1ms;
    wheel.advance(now);
    benchmark::DoNotOptimize(wheel.next());
  }
}
BENCHMARK(timer_tick_nothing_due);

// The life of a timer that fires: `range` timers are armed for the next second, and all ticks of it pass. The time is
// of one timer, with its share of the ticks.
void timer_schedule_and_fire(benchmark::State& state) {
  TimerWheel wheel(Instant{});
  struct Counted : Timer {
    explicit Counted(std::int64_t& fired)
        : Timer([](Timer& timer) noexcept { ++static_cast<Counted&>(timer).count; }), count(fired) {}
    std::int64_t& count;
  };
  const std::int64_t count = state.range(0);
  std::int64_t fired = 0;
  std::vector<std::unique_ptr<Counted>> timers;
  for (std::int64_t i = 0; i < count; ++i) timers.push_back(std::make_unique<Counted>(fired));
  Instant now{};
  std::int64_t rounds = 0;
  while (state.KeepRunningBatch(count)) {
    for (std::int64_t i = 0; i < count; ++i)
      wheel.schedule(*timers[static_cast<std::size_t>(i)], now + 1ms + 998ms * i / count);
    for (int tick = 0; tick < 1'000; ++tick) {
      now += 1ms;
      wheel.advance(now);
    }
    ++rounds;
  }
  if (fired != rounds * count) state.SkipWithError("a timer did not fire");
}
BENCHMARK(timer_schedule_and_fire)->Arg(1'000)->Arg(10'000)->Arg(50'000)->Arg(100'000);

}  // namespace
}  // namespace sluice::core
