#include <atomic>
#include <cstdint>
#include <future>

#include <benchmark/benchmark.h>

#include "core/core.h"
#include "core/mesh.h"
#include "core/spsc_ring.h"

namespace sluice::core {
namespace {

// One value through the ring with both ends on one thread. It measures the instructions without the transfer of cache
// lines between cores.
void spsc_push_and_pop(benchmark::State& state) {
  SpscRing<std::uint64_t> ring(1024);
  std::uint64_t number = 0;
  std::uint64_t sum = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ring.try_emplace(++number));
    sum += *ring.front();
    ring.pop();
  }
  benchmark::DoNotOptimize(sum);
}
BENCHMARK(spsc_push_and_pop);

// A message with a small capture: constructed in its slot, run, destroyed.
void spsc_message(benchmark::State& state) {
  Mesh mesh(1);
  Core core(mesh, 0, make_epoll_reactor());
  std::uint64_t sum = 0;
  for (auto _ : state) {
    for (int i = 0; i < 64; ++i) benchmark::DoNotOptimize(core.mesh().try_post(0, [&sum] { ++sum; }));
    core.mesh().drain();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(sum));
  core.stop();
  core.run();
}
BENCHMARK(spsc_message);

// Core 0 posts to core 1 as fast as the rings accept; the rate counts messages that have run.
void one_way_posts(benchmark::State& state) {
  std::atomic<std::uint64_t> ran = 0;
  Cores cores({.count = 2, .ring_capacity = 1024});
  const auto posts = static_cast<std::uint64_t>(state.range(0));
  std::promise<void> started;
  cores.start([](Core& core) { core.run(); });
  struct Order : Letter {
    Order(Cores& cores, std::uint64_t posts, std::atomic<std::uint64_t>& ran)
        : Letter([](Letter& letter) noexcept {
            auto& self = static_cast<Order&>(letter);
            self.cores.core(0).tasks().spawn(self.run());
          }),
          cores(cores),
          posts(posts),
          ran(ran) {}
    Task<void> run() {
      MeshPort& port = cores.core(0).mesh();
      for (std::uint64_t i = 0; i < posts; ++i) {
        auto message = [this] { ran.store(ran.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); };
        if (!port.try_post(1, message)) co_await port.post(1, never, message);
      }
      co_await port.call(1, never, [] {});
      done.set_value();
    }
    Cores& cores;
    std::uint64_t posts;
    std::atomic<std::uint64_t>& ran;
    std::promise<void> done;
  };
  for (auto _ : state) {
    Order order(cores, posts, ran);
    auto done = order.done.get_future();
    if (!cores.core(0).mailbox().post(order)) state.SkipWithError("the core has ended");
    done.wait();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(ran.load()));
}
BENCHMARK(one_way_posts)->Arg(1'000'000)->UseRealTime()->Unit(benchmark::kMillisecond);

// call() to the other core and back, with `range` calls in flight. With one call, both cores sleep between messages.
void cross_core_round_trip(benchmark::State& state) {
  constexpr std::uint64_t calls = 20'000;
  const auto in_flight = static_cast<unsigned>(state.range(0));
  struct Order : Letter {
    Order(Cores& cores, unsigned in_flight)
        : Letter([](Letter& letter) noexcept {
            auto& self = static_cast<Order&>(letter);
            self.left = self.running;
            for (unsigned i = 0; i < self.running; ++i) self.cores.core(0).tasks().spawn(self.run());
          }),
          cores(cores),
          running(in_flight) {}
    Task<void> run() {
      for (std::uint64_t i = 0; i < calls / running; ++i)
        co_await cores.core(0).mesh().call(1, never, [i] { return i; });
      if (--left == 0) done.set_value();
    }
    Cores& cores;
    const unsigned running;
    unsigned left = 0;
    std::promise<void> done;
  };
  Cores cores({.count = 2});
  cores.start([](Core& core) { core.run(); });
  std::int64_t total = 0;
  for (auto _ : state) {
    Order order(cores, in_flight);
    auto done = order.done.get_future();
    if (!cores.core(0).mailbox().post(order)) state.SkipWithError("the core has ended");
    done.wait();
    total += static_cast<std::int64_t>(calls / in_flight * in_flight);
  }
  state.SetItemsProcessed(total);
  state.counters["round_trip"] =
      benchmark::Counter(static_cast<double>(total), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(cross_core_round_trip)->Arg(1)->Arg(64)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::core
