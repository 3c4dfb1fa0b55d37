#include "core/mesh.h"

#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/core.h"
#include "core/simulated_reactor.h"

namespace sluice::core {
namespace {

// Two cores that the test steps by hand, on its own thread.
class Pair {
 public:
  explicit Pair(std::size_t ring_capacity = 4, std::unique_ptr<Reactor> (*make)() = make_epoll_reactor,
                std::uint32_t most_calls = 4096)
      : mesh_(2, ring_capacity, most_calls), a_(mesh_, 0, make()), b_(mesh_, 1, make()) {}

  MeshPort& a() { return a_.mesh(); }
  MeshPort& b() { return b_.mesh(); }
  TaskGroup& a_tasks() { return a_.tasks(); }
  Core& core(unsigned index) { return index == 0 ? a_ : b_; }

  // One step without sleeping.
  void step_a() { a_.step(a_.reactor().now()); }
  void step_b() { b_.step(b_.reactor().now()); }
  void settle() {
    for (int i = 0; i < 20; ++i) {
      step_a();
      step_b();
    }
  }

 private:
  Mesh mesh_;
  Core a_;
  Core b_;
};

// The same, but each core has a virtual clock.
class SimulatedPair : public Pair {
 public:
  explicit SimulatedPair(std::size_t ring_capacity, std::uint32_t most_calls = 4096)
      : Pair(
            ring_capacity, +[]() -> std::unique_ptr<Reactor> { return std::make_unique<SimulatedReactor>(1); },
            most_calls) {}
  Instant a_now() { return core(0).reactor().now(); }
  std::size_t a_timers() { return core(0).reactor().timers().size(); }
  // Steps only A. Its timers fire at most a tick late.
  void pass(Instant until) {
    while (a_now() < until + 2ms) core(0).step(until + 2ms);
  }
};

template <class Fn, class Value = typename detail::Awaited<std::invoke_result_t<Fn&>>::Value>
Task<void> call(MeshPort& port, unsigned core, Fn fn, std::optional<Result<Value>>& out, Instant deadline = never) {
  out.emplace(co_await port.call(core, deadline, std::move(fn)));
}

TEST(Mesh, a_posted_callable_runs_on_the_other_core_in_order) {
  Pair pair;
  std::vector<int> log;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pair.a().try_post(1, [&log, i] { log.push_back(i); }));
  EXPECT_TRUE(log.empty());
  pair.step_b();
  EXPECT_EQ(log, (std::vector{0, 1, 2}));
}

TEST(Mesh, captures_of_any_size_move_and_are_destroyed_once) {
  Pair pair;
  auto counted = std::make_shared<int>(0);
  std::string seen;
  std::array<char, 200> large{};
  large.fill('x');
  EXPECT_TRUE(pair.a().try_post(1, [counted] { ++*counted; }));
  EXPECT_TRUE(pair.a().try_post(1, [counted, large, &seen] { seen.assign(large.data(), large.size()); }));
  EXPECT_TRUE(pair.a().try_post(1, [own = std::make_unique<std::string>("own"), counted, &seen] { seen += *own; }));
  EXPECT_EQ(counted.use_count(), 4);
  pair.step_b();
  EXPECT_EQ(seen, std::string(200, 'x') + "own");
  EXPECT_EQ(*counted, 1);
  EXPECT_EQ(counted.use_count(), 1);
}

TEST(Mesh, a_message_that_never_ran_is_destroyed_with_the_mesh) {
  auto counted = std::make_shared<int>(0);
  {
    Mesh mesh(2);
    const auto reactor = make_epoll_reactor();
    MeshPort port(mesh, 0, *reactor);
    EXPECT_TRUE(port.try_post(1, [counted] { ++*counted; }));
  }
  EXPECT_EQ(counted.use_count(), 1);
  EXPECT_EQ(*counted, 0);
}

TEST(Mesh, a_core_may_post_to_itself) {
  Pair pair;
  int ran = 0;
  EXPECT_TRUE(pair.a().try_post(0, [&] { ++ran; }));
  EXPECT_EQ(ran, 0);
  pair.step_a();
  EXPECT_EQ(ran, 1);
}

TEST(Mesh, a_full_ring_makes_the_sender_wait_and_keeps_the_order) {
  Pair pair(4);
  std::vector<int> log;
  int accepted = 0;
  const auto post = [](MeshPort& port, std::vector<int>& log, int value, int& accepted) -> Task<void> {
    if (co_await port.post(1, never, [&log, value] { log.push_back(value); })) ++accepted;
  };
  for (int i = 0; i < 11; ++i) pair.a_tasks().spawn(post(pair.a(), log, i, accepted));
  EXPECT_EQ(accepted, 4);
  EXPECT_FALSE(pair.a().try_post(1, [&log] { log.push_back(-1); }));
  pair.step_b();
  EXPECT_FALSE(pair.a().try_post(1, [&log] { log.push_back(-1); }));  // there is room, but waiting messages go first
  pair.settle();
  EXPECT_EQ(accepted, 11);
  EXPECT_EQ(log, (std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(Mesh, a_post_that_finds_no_room_before_its_deadline_never_runs) {
  SimulatedPair pair(1);
  std::vector<int> log;
  std::vector<std::optional<Result<void>>> out(4);
  const Instant deadline = pair.a_now() + 1s;
  const auto post = [](MeshPort& port, Instant deadline, std::vector<int>& log, int value,
                       std::optional<Result<void>>& out) -> Task<void> {
    out = co_await port.post(1, deadline, [&log, value] { log.push_back(value); });
  };
  for (int i = 0; i < 4; ++i) {
    const Instant until = i == 2 ? never : i == 3 ? deadline + 1s : deadline;
    pair.a_tasks().spawn(post(pair.a(), until, log, i, out[static_cast<std::size_t>(i)]));
  }
  EXPECT_EQ(pair.a_timers(), 2u) << "a post that is accepted at once needs no timer";
  EXPECT_TRUE(out[0]->has_value());
  pair.pass(deadline);
  EXPECT_EQ(out[1]->error().code, Errc::timed_out);
  EXPECT_FALSE(out[2]);
  EXPECT_FALSE(out[3]);
  pair.settle();
  EXPECT_TRUE(out[2]->has_value());
  EXPECT_TRUE(out[3]->has_value());
  EXPECT_EQ(pair.a_timers(), 0u);
  EXPECT_EQ(log, (std::vector{0, 2, 3}));
}

TEST(Mesh, a_sender_that_waits_for_room_may_be_destroyed) {
  Pair pair(1);
  std::vector<int> log;
  int accepted = 0;
  const auto post = [](MeshPort& port, std::vector<int>& log, int value, int& accepted) -> Task<void> {
    if (co_await port.post(1, never, [&log, value] { log.push_back(value); })) ++accepted;
  };
  TaskGroup given_up;
  pair.a_tasks().spawn(post(pair.a(), log, 0, accepted));
  pair.a_tasks().spawn(post(pair.a(), log, 1, accepted));
  given_up.spawn(post(pair.a(), log, 2, accepted));
  pair.a_tasks().spawn(post(pair.a(), log, 3, accepted));
  given_up.cancel();
  pair.settle();
  EXPECT_EQ(log, (std::vector{0, 1, 3}));
  EXPECT_EQ(accepted, 3);
}

TEST(Mesh, a_posted_coroutine_keeps_its_captures) {
  Pair pair;
  std::string out;
  EXPECT_TRUE(pair.a().try_post(1, [&pair, &out, text = std::string(100, 't')]() -> Task<void> {
    auto back = co_await pair.b().call(0, never, [] { return 7; });
    out = text + std::to_string(back.value());
  }));
  pair.settle();
  EXPECT_EQ(out, std::string(100, 't') + "7");
}

TEST(Mesh, a_call_brings_values_nothing_tasks_and_asyncs_back) {
  Pair pair;
  std::optional<Result<std::unique_ptr<int>>> value;
  std::optional<Result<void>> nothing;
  std::optional<Result<std::string>> task;
  std::optional<Result<int>> async;
  std::optional<Result<Result<int>>> failed;
  const MeshPort* where = nullptr;
  auto& group = pair.a_tasks();
  group.spawn(call(pair.a(), 1, [own = std::make_unique<int>(5)]() mutable { return std::move(own); }, value));
  group.spawn(call(pair.a(), 1, [&](const MeshPort& there) { where = &there; }, nothing));
  group.spawn(call(
      pair.a(), 1,
      [&pair, text = std::string(80, 'k')]() -> Task<std::string> {
        auto n = co_await pair.b().call(0, never, [] { return 3; });
        co_return text + std::to_string(*n);
      },
      task));
  group.spawn(call(pair.a(), 1, [] { return Async<int>(9); }, async));
  pair.settle();
  group.spawn(call(pair.a(), 1, []() -> Result<int> { return fail(Errc::malformed); }, failed));
  pair.settle();
  EXPECT_EQ(*value->value(), 5);
  EXPECT_TRUE(nothing->has_value());
  EXPECT_EQ(where, &pair.b());
  EXPECT_EQ(task->value(), std::string(80, 'k') + "3");
  EXPECT_EQ(async->value(), 9);
  EXPECT_EQ(failed->value().error().code, Errc::malformed);
  EXPECT_TRUE(group.empty());
}

TEST(Mesh, a_call_that_had_no_memory_there_says_so) {
  Pair pair;
  std::optional<Result<std::array<char, 200>>> value;
  std::optional<Result<void>> nothing;
  std::optional<Result<int>> task;
  auto& group = pair.a_tasks();
  group.spawn(call(pair.a(), 1, []() -> std::array<char, 200> { throw std::bad_alloc(); }, value));
  group.spawn(call(pair.a(), 1, []() { throw std::bad_alloc(); }, nothing));
  group.spawn(call(
      pair.a(), 1,
      []() -> Task<int> {
        throw std::bad_alloc();
        co_return 1;
      },
      task));
  pair.settle();
  const Error wanted{Errc::system, ENOMEM};
  EXPECT_EQ(value->error(), wanted);
  EXPECT_EQ(nothing->error(), wanted);
  EXPECT_EQ(task->error(), wanted);
}

TEST(Mesh, calls_and_their_answers_wait_for_room) {
  Pair pair(1);
  std::vector<std::optional<Result<int>>> out(20);
  int number = 0;
  for (auto& each : out) {
    pair.a_tasks().spawn(call(pair.a(), 1, [n = number++] { return n; }, each));
  }
  pair.step_a();
  pair.step_b();
  pair.step_b();
  for (int i = 0; i < 60; ++i) {
    pair.step_a();
    pair.step_b();
  }
  for (int i = 0; i < 20; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)]->value(), i);
}

TEST(Mesh, an_answer_for_a_caller_that_is_gone_is_dropped) {
  Pair pair;
  auto counted = std::make_shared<int>(0);
  std::optional<Result<std::shared_ptr<int>>> gone;
  std::optional<Result<int>> next;
  {
    TaskGroup given_up;
    given_up.spawn(call(pair.a(), 1, [counted] { return ++*counted, counted; }, gone));
  }
  // This call must not receive the late answer of the first call.
  pair.a_tasks().spawn(call(pair.a(), 1, [] { return 42; }, next));
  pair.settle();
  EXPECT_EQ(*counted, 1);
  EXPECT_EQ(counted.use_count(), 1);
  EXPECT_FALSE(gone.has_value());
  EXPECT_EQ(next->value(), 42);
}

TEST(Mesh, a_call_ends_at_its_deadline_and_the_late_answer_is_dropped) {
  SimulatedPair pair(4);
  auto counted = std::make_shared<int>(0);
  std::optional<Result<std::shared_ptr<int>>> late;
  std::optional<Result<int>> next;
  const Instant deadline = pair.a_now() + 1s;
  pair.a_tasks().spawn(call(pair.a(), 1, [counted] { return ++*counted, counted; }, late, deadline));
  pair.pass(deadline - 10ms);
  EXPECT_FALSE(late);
  pair.pass(deadline);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->error().code, Errc::timed_out);
  EXPECT_TRUE(pair.a_tasks().empty());
  EXPECT_EQ(*counted, 0);
  // This call must not receive the late answer of the first call.
  pair.a_tasks().spawn(call(pair.a(), 1, [] { return 42; }, next));
  pair.settle();
  EXPECT_EQ(*counted, 1) << "what was sent runs";
  EXPECT_EQ(counted.use_count(), 1);
  EXPECT_EQ(late->error().code, Errc::timed_out);
  EXPECT_EQ(next->value(), 42);
}

TEST(Mesh, a_call_that_is_given_up_while_it_waits_for_room_never_runs) {
  SimulatedPair pair(1);
  std::vector<int> log;
  std::vector<std::optional<Result<int>>> out(4);
  const Instant deadline = pair.a_now() + 1s;
  TaskGroup given_up;
  for (int i = 0; i < 4; ++i) {
    (i == 2 ? given_up : pair.a_tasks())
        .spawn(call(
            pair.a(), 1, [&log, i] { return log.push_back(i), i; }, out[static_cast<std::size_t>(i)],
            i == 1 ? deadline : never));
  }
  given_up.cancel();
  pair.pass(deadline);
  ASSERT_TRUE(out[1]);
  EXPECT_EQ(out[1]->error().code, Errc::timed_out);
  pair.settle();
  EXPECT_EQ(log, (std::vector{0, 3}));
  EXPECT_EQ(out[0]->value(), 0);
  EXPECT_FALSE(out[2]);
  EXPECT_EQ(out[3]->value(), 3);
}

TEST(Mesh, a_call_beyond_the_limit_of_outstanding_calls_fails_at_once) {
  SimulatedPair pair(2, 4);
  const Instant deadline = pair.a_now() + 1s;
  int ran = 0;
  std::vector<std::optional<Result<int>>> out(5);
  const auto ask = [&](unsigned core, std::optional<Result<int>>& out, Instant until = never) {
    pair.a_tasks().spawn(call(pair.a(), core, [&ran] { return ++ran; }, out, until));
  };
  // Two are sent, two wait for room; the fifth is too many.
  for (auto& each : out) ask(1, each, deadline);
  EXPECT_FALSE(out[3]);
  ASSERT_TRUE(out[4]);
  EXPECT_EQ(out[4]->error().code, Errc::limit);
  std::optional<Result<int>> elsewhere;
  ask(0, elsewhere);
  EXPECT_FALSE(elsewhere) << "each core has its own limit";

  // The calls that were never sent make room for others. A call that was sent counts until its answer arrives.
  pair.pass(deadline);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i]->error().code, Errc::timed_out);
  out.assign(5, std::nullopt);
  for (auto& each : out) ask(1, each);
  EXPECT_FALSE(out[1]);
  for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(out[i]->error().code, Errc::limit);
  pair.settle();
  EXPECT_EQ(ran, 5);
  EXPECT_TRUE(out[0]->has_value() && out[1]->has_value() && elsewhere->has_value());

  out.assign(5, std::nullopt);
  for (auto& each : out) ask(1, each);
  EXPECT_EQ(out[4]->error().code, Errc::limit);
  pair.settle();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(out[i]->has_value());
  EXPECT_EQ(ran, 9);
}

// A caller that gives up again and again without reading its answers.
TEST(Mesh, a_caller_that_does_not_drain_cannot_make_the_other_core_keep_more_than_the_limit) {
  Pair pair(2, make_epoll_reactor, 8);
  int ran = 0;
  for (int i = 0; i < 100; ++i) {
    TaskGroup given_up;
    std::vector<std::optional<Result<int>>> out(3);
    for (auto& each : out) given_up.spawn(call(pair.a(), 1, [&ran] { return ++ran; }, each));
    given_up.cancel();
    pair.step_b();
  }
  EXPECT_EQ(ran, 8);
  pair.settle();
  std::optional<Result<int>> after;
  pair.a_tasks().spawn(call(pair.a(), 1, [&ran] { return ++ran; }, after));
  pair.settle();
  EXPECT_EQ(after->value(), 9);
}

TEST(Mesh, an_answer_ends_the_deadline) {
  SimulatedPair pair(4);
  std::size_t armed = 1;
  int answer = 0;
  const auto ask = [](SimulatedPair& pair, std::size_t& armed, int& answer) -> Task<void> {
    const auto note = [&](const Result<int>& result) {
      armed = pair.a_timers();
      return result.value_or(-1);
    };
    answer = note(co_await pair.a().call(1, pair.a_now() + 1s, [] { return 5; }));
  };
  pair.a_tasks().spawn(ask(pair, armed, answer));
  EXPECT_EQ(pair.a_timers(), 1u);
  pair.settle();
  EXPECT_EQ(answer, 5);
  EXPECT_EQ(armed, 0u);
}

// Suspends and is never resumed.
struct Forever {
  bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<>) {}
  void await_resume() {}
};

TEST(Mesh, an_ending_core_runs_what_it_had_accepted_and_answers_the_rest_closed) {
  Pair pair(2);
  std::vector<int> log;
  std::optional<Result<int>> unfinished;
  std::optional<Result<int>> late;
  pair.a_tasks().spawn(call(
      pair.a(), 1,
      []() -> Task<int> {
        co_await Forever{};
        co_return 1;
      },
      unfinished));
  pair.step_b();
  int accepted = 0;
  int refused = 0;
  const auto post = [](MeshPort& port, std::vector<int>& log, int value, int& accepted, int& refused) -> Task<void> {
    ++(co_await port.post(1, never, [&log, value] { log.push_back(value); }) ? accepted : refused);
  };
  for (int i = 0; i < 6; ++i) pair.a_tasks().spawn(post(pair.a(), log, i, accepted, refused));

  pair.b().refuse_new();
  EXPECT_FALSE(pair.b().quiet());
  EXPECT_FALSE(pair.b().open(1));
  pair.step_b();
  pair.step_a();
  EXPECT_FALSE(pair.a().open(1));
  EXPECT_TRUE(pair.a().open(0));
  pair.step_b();
  EXPECT_TRUE(pair.b().quiet());
  EXPECT_EQ(accepted + refused, 6);
  EXPECT_EQ(static_cast<int>(log.size()), accepted);
  EXPECT_GE(accepted, 2);
  EXPECT_GE(refused, 1);

  pair.a_tasks().spawn(call(pair.a(), 1, [] { return 2; }, late));
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->error().code, Errc::closed);
  EXPECT_FALSE(unfinished.has_value());

  pair.b().cancel_served();
  EXPECT_TRUE(pair.b().flushed());
  pair.b().end();
  pair.step_a();
  ASSERT_TRUE(unfinished.has_value());
  EXPECT_EQ(unfinished->error().code, Errc::closed);
}

TEST(Mesh, a_core_that_never_was_is_not_waited_for) {
  Mesh mesh(3);
  Core only(mesh, 1, make_epoll_reactor());
  only.stop();
  only.run();
  EXPECT_FALSE(only.mesh().open(1));
}

TEST(Mesh, a_sleeping_core_is_woken_and_an_awake_one_does_not_fall_asleep) {
  Pair pair(64);
  // After a step, neither core is asleep. So the burst wakes none, and B still finds it.
  pair.settle();
  int ran = 0;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(pair.a().try_post(1, [&] { ++ran; }));
  EXPECT_FALSE(pair.b().prepare_to_sleep());
  pair.step_b();
  EXPECT_EQ(ran, 10);
  // B prepares to sleep. Then the burst wakes it, so its turn returns at once.
  ASSERT_TRUE(pair.b().prepare_to_sleep());
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(pair.a().try_post(1, [&] { ++ran; }));
  pair.step_a();
  pair.core(1).reactor().turn(never);
  pair.b().awake();
  pair.step_b();
  EXPECT_EQ(ran, 20);
}

// A reactor without sockets that counts the calls of wake().
class CountingReactor final : public Reactor {
 public:
  CountingReactor() : Reactor(Instant{}) {}
  int wakes = 0;

  std::int64_t wall_clock_ns() const override { return 0; }
  Result<void> bind(Handle&, const Address&, bool) override { return fail(Errc::system, ENOSYS); }
  Result<void> start_listening(Handle&, int) override { return fail(Errc::system, ENOSYS); }
  Result<bool> accept(Handle&, Handle&, Address*) override { return fail(Errc::system, ENOSYS); }
  Result<bool> connect(Handle&, const Address&) override { return fail(Errc::system, ENOSYS); }
  Result<void> connect_result(Handle&) override { return fail(Errc::system, ENOSYS); }
  Result<Address> local_address(const Handle&) const override { return fail(Errc::system, ENOSYS); }
  void close(Handle&) noexcept override {}
  void shutdown_write(Handle&) noexcept override {}
  void reset_on_close(Handle&) noexcept override {}
  Io recv(Handle&, char*, std::size_t) override { return {.error = ENOSYS}; }
  Io send(Handle&, std::span<const iovec>) override { return {.error = ENOSYS}; }
  Io send_file(Handle&, int, std::uint64_t, std::size_t) override { return {.error = ENOSYS}; }
  void turn(Instant) override { run_hooks(); }
  void wake() noexcept override { ++wakes; }
  void set_quiet(Handle&, bool) noexcept override {}
};

TEST(Mesh, a_burst_wakes_a_sleeper_once_and_an_awake_core_never) {
  Mesh mesh(2, 64);
  CountingReactor a_reactor;
  CountingReactor b_reactor;
  MeshPort a(mesh, 0, a_reactor);
  MeshPort b(mesh, 1, b_reactor);
  int ran = 0;
  const auto burst = [&] {
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(a.try_post(1, [&] { ++ran; }));
  };
  burst();
  a_reactor.turn(never);
  EXPECT_EQ(b_reactor.wakes, 0);
  EXPECT_FALSE(b.prepare_to_sleep());
  b.drain();
  EXPECT_EQ(ran, 10);

  ASSERT_TRUE(b.prepare_to_sleep());
  burst();
  EXPECT_EQ(b_reactor.wakes, 0);  // A's turn has not ended
  a_reactor.turn(never);
  EXPECT_EQ(b_reactor.wakes, 1);
  burst();
  a_reactor.turn(never);
  EXPECT_EQ(b_reactor.wakes, 1);  // B has already been woken
  b.awake();
  b.drain();
  EXPECT_EQ(ran, 30);
  EXPECT_EQ(a_reactor.wakes, 0);
}

TEST(Mesh, a_sender_that_sleeps_for_want_of_room_is_woken_when_there_is_some) {
  Mesh mesh(2, 1);
  CountingReactor a_reactor;
  CountingReactor b_reactor;
  MeshPort a(mesh, 0, a_reactor);
  MeshPort b(mesh, 1, b_reactor);
  TaskGroup tasks;
  int ran = 0;
  const auto post = [](MeshPort& port, int& ran) -> Task<void> { co_await port.post(1, never, [&ran] { ++ran; }); };
  tasks.spawn(post(a, ran));
  tasks.spawn(post(a, ran));
  a_reactor.turn(never);
  ASSERT_TRUE(a.prepare_to_sleep());
  b.drain();
  EXPECT_EQ(a_reactor.wakes, 1);
  a.awake();
  a.drain();
  EXPECT_TRUE(tasks.empty());
  b.drain();
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace sluice::core
