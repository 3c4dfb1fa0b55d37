#include <atomic>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/core.h"
#include "core/inbox.h"
#include "core/mesh.h"
#include "core/spsc_ring.h"
#include "core/usable_cores.h"

namespace sluice::core {
namespace {

// One value through a ring of `range` slots with both ends on one thread. It measures the instructions without the
// transfer of cache lines between cores.
void spsc_push_and_pop(benchmark::State& state) {
  SpscRing<std::uint64_t> ring(static_cast<std::size_t>(state.range(0)));
  std::uint64_t number = 0;
  std::uint64_t sum = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ring.try_emplace(++number));
    sum += *ring.front();
    ring.pop();
  }
  benchmark::DoNotOptimize(sum);
}
BENCHMARK(spsc_push_and_pop)->Arg(1024)->Arg(4096)->Arg(32 * 1024)->Arg(64 * 1024);

// A push that a full ring refuses.
void spsc_refused_push(benchmark::State& state) {
  SpscRing<std::uint64_t> ring(1024);
  while (ring.try_emplace(1U)) {
  }
  bool any = false;
  for (auto _ : state) {
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(any |= ring.try_emplace(2U));
  }
  if (any) state.SkipWithError("the ring was not full");
}
BENCHMARK(spsc_refused_push);

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

void count_round_trips(benchmark::State& state, std::int64_t total) {
  state.SetItemsProcessed(total);
  state.counters["round_trip"] =
      benchmark::Counter(static_cast<double>(total), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

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
  count_round_trips(state, total);
}
BENCHMARK(cross_core_round_trip)->Arg(1)->Arg(64)->UseRealTime()->Unit(benchmark::kMillisecond);

// Pins the calling thread to the allowed CPU of this index, if there is one.
void pin_to(unsigned index) {
  const std::vector<unsigned> cpus = allowed_cpus();
  if (index >= cpus.size()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[index], &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// One call after another to the other core, while neither core sleeps: each drains its mesh in a loop, in one letter.
void cross_core_round_trip_polling(benchmark::State& state) {
  constexpr std::uint64_t calls = 200'000;
  struct Order : Letter {
    Order(Cores& cores, unsigned index)
        : Letter([](Letter& letter) noexcept { static_cast<Order&>(letter).poll(); }), core(cores.core(index)) {}
    void poll() {
      if (core.index() == 0) core.tasks().spawn(run());
      while (!is_over.load(std::memory_order_relaxed)) core.mesh().drain();
      done.set_value();
    }
    Task<void> run() {
      for (std::uint64_t i = 0; i < calls; ++i) co_await core.mesh().call(1, never, [i] { return i; });
      is_over.store(true, std::memory_order_relaxed);
    }
    Core& core;
    std::atomic<bool> is_over = false;
    std::promise<void> done;
  };
  Cores cores({.count = 2});
  cores.start([](Core& core) { core.run(); });
  std::int64_t total = 0;
  for (auto _ : state) {
    Order caller(cores, 0);
    Order server(cores, 1);
    auto called = caller.done.get_future();
    auto served = server.done.get_future();
    if (!cores.core(1).mailbox().post(server)) state.SkipWithError("the core has ended");
    if (!cores.core(0).mailbox().post(caller)) state.SkipWithError("the core has ended");
    called.wait();
    server.is_over.store(true, std::memory_order_relaxed);
    served.wait();
    total += static_cast<std::int64_t>(calls);
  }
  count_round_trips(state, total);
}
BENCHMARK(cross_core_round_trip_polling)->UseRealTime()->Unit(benchmark::kMillisecond);

// The least that a round trip costs if both threads sleep: two threads wake each other through an eventfd each, without
// a reactor. Compare with cross_core_round_trip/1.
void eventfd_round_trip(benchmark::State& state) {
  constexpr std::int64_t trips = 20'000;
  const int there = eventfd(0, 0);
  const int back = eventfd(0, 0);
  const auto play = [](unsigned cpu, int own, int other, bool begins) {
    pin_to(cpu);
    eventfd_t value = 0;
    for (std::int64_t i = 0; i < trips; ++i) {
      if (begins) eventfd_write(other, 1);
      eventfd_read(own, &value);
      if (!begins) eventfd_write(other, 1);
    }
  };
  std::int64_t total = 0;
  for (auto _ : state) {
    std::thread echo(play, 1, there, back, false);
    std::thread caller(play, 0, back, there, true);
    caller.join();
    echo.join();
    total += trips;
  }
  close(there);
  close(back);
  count_round_trips(state, total);
}
BENCHMARK(eventfd_round_trip)->UseRealTime()->Unit(benchmark::kMillisecond);

struct Add {
  std::uint64_t& sum;
  void operator()(std::uint64_t value) const noexcept { sum += value; }
};

// The core pushes into its own inbox of `range` cells, half of them at a time, and takes them: the queue of many
// producers without the transfer of cache lines.
void inbox_push_and_take(benchmark::State& state) {
  Mesh mesh(1);
  Core core(mesh, 0, make_epoll_reactor());
  const auto cells = static_cast<std::size_t>(state.range(0));
  std::uint64_t sum = 0;
  std::uint64_t pushed = 0;
  {
    Inbox<std::uint64_t, Add> inbox(core.mailbox(), cells, Add{sum}, cells);
    while (state.KeepRunningBatch(static_cast<std::int64_t>(cells / 2))) {
      for (std::size_t i = 0; i < cells / 2; ++i) pushed += inbox.try_push(1U) ? 1 : 0;
      core.mailbox().deliver();
    }
  }
  if (sum != pushed) state.SkipWithError("a value was lost");
  core.stop();
  core.run();
}
BENCHMARK(inbox_push_and_take)->Arg(1024)->Arg(4096)->Arg(32 * 1024)->Arg(64 * 1024);

// A push that a full inbox refuses.
void inbox_refused_push(benchmark::State& state) {
  Mesh mesh(1);
  Core core(mesh, 0, make_epoll_reactor());
  std::uint64_t sum = 0;
  bool any = false;
  {
    Inbox<std::uint64_t, Add> inbox(core.mailbox(), 1024, Add{sum});
    while (inbox.try_push(1U)) {
    }
    for (auto _ : state) benchmark::DoNotOptimize(any |= inbox.try_push(2U));
    core.mailbox().deliver();
  }
  if (any) state.SkipWithError("the inbox was not full");
  core.stop();
  core.run();
}
BENCHMARK(inbox_refused_push);

// `range` threads push into the inbox of a core. The core has the first CPU, the threads share the others.
void inbox_pushes(benchmark::State& state) {
  constexpr std::uint64_t pushes = 1'000'000;
  const auto producers = static_cast<unsigned>(state.range(0));
  std::atomic<std::uint64_t> taken = 0;
  const auto take = [&taken](std::uint64_t) {
    taken.store(taken.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  };
  Inbox<std::uint64_t, decltype(take)>* inbox = nullptr;
  Cores cores({.count = 1, .pin = false});
  cores.start([&](Core& core) {
    pin_to(0);
    Inbox<std::uint64_t, decltype(take)> own(core.mailbox(), 1024, take, 256);
    inbox = &own;
    core.run();
  });
  const auto others = static_cast<unsigned>(allowed_cpus().size()) - 1;
  std::uint64_t total = 0;
  for (auto _ : state) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < producers; ++i) {
      threads.emplace_back([&, i] {
        if (others != 0) pin_to(1 + i % others);
        for (std::uint64_t number = 0; number < pushes / producers;) {
          if (inbox->try_push(std::uint64_t{number})) {
            ++number;
          } else {
            std::this_thread::yield();
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    total += pushes / producers * producers;
    while (taken.load(std::memory_order_relaxed) != total) std::this_thread::yield();
  }
  cores.stop();
  cores.join();
  state.SetItemsProcessed(static_cast<std::int64_t>(total));
}
BENCHMARK(inbox_pushes)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice::core
