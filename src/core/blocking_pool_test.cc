#include "core/blocking_pool.h"

#include <array>
#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/task.h"

namespace sluice::core {
namespace {

// A core that runs on the test's thread. It outlives the pool, whose threads may still be waking it.
struct Home {
  std::unique_ptr<Reactor> reactor = make_epoll_reactor();
  Mailbox mailbox{*reactor};
  TaskGroup tasks;

  template <class Condition>
  void run_until(Condition condition) {
    while (!condition()) {
      mailbox.deliver();
      if (!condition()) reactor->turn(reactor->now() + 1s);
    }
  }
};

template <class Work, class Value = std::invoke_result_t<Work&>>
Task<void> run(BlockingPool& pool, Home& home, Work work, std::optional<Result<Value>>& out) {
  out.emplace(co_await pool.run(home.mailbox, std::move(work)));
}

// Blocks a pool thread until `let_go` is counted down.
struct Plug {
  std::latch running{1};
  std::latch let_go{1};
  int operator()() {
    running.count_down();
    let_go.wait();
    return 1;
  }
};

TEST(BlockingPool, runs_elsewhere_and_comes_back) {
  Home home;
  BlockingPool pool(2, 16);
  const auto here = std::this_thread::get_id();
  std::thread::id worked;
  std::thread::id resumed;
  std::optional<Result<std::string>> out;
  const auto task = [](BlockingPool& pool, Home& home, std::thread::id& worked, std::thread::id& resumed,
                       std::optional<Result<std::string>>& out) -> Task<void> {
    auto text = std::make_unique<std::string>("moved in");
    auto work = [&worked, text = std::move(text)] {
      worked = std::this_thread::get_id();
      return *text + ", moved out";
    };
    out = co_await pool.run(home.mailbox, std::move(work));
    resumed = std::this_thread::get_id();
  };
  home.tasks.spawn(task(pool, home, worked, resumed, out));
  home.run_until([&] { return out.has_value(); });
  EXPECT_EQ(out->value(), "moved in, moved out");
  EXPECT_NE(worked, here);
  EXPECT_EQ(resumed, here);
  EXPECT_TRUE(home.tasks.empty());
}

TEST(BlockingPool, work_may_return_nothing_or_a_result) {
  Home home;
  BlockingPool pool(1, 16);
  std::optional<Result<void>> nothing;
  std::optional<Result<Result<int>>> failed;
  home.tasks.spawn(run(pool, home, [] {}, nothing));
  home.tasks.spawn(run(pool, home, []() -> Result<int> { return fail(Errc::malformed, 3); }, failed));
  home.run_until([&] { return nothing && failed; });
  EXPECT_TRUE(nothing->has_value());
  ASSERT_TRUE(failed->has_value());
  EXPECT_EQ((*failed)->error(), (Error{Errc::malformed, 3}));
}

TEST(BlockingPool, a_full_queue_says_limit_at_once) {
  Home home;
  BlockingPool pool(1, 1);
  Plug plug;
  std::optional<Result<int>> running;
  std::optional<Result<int>> queued;
  std::optional<Result<int>> refused;
  home.tasks.spawn(run(pool, home, [&] { return plug(); }, running));
  plug.running.wait();
  home.tasks.spawn(run(pool, home, [] { return 2; }, queued));
  EXPECT_EQ(pool.queued(), 1U);
  home.tasks.spawn(run(pool, home, [] { return 3; }, refused));
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->error().code, Errc::limit);
  plug.let_go.count_down();
  home.run_until([&] { return running && queued; });
  EXPECT_EQ(running->value(), 1);
  EXPECT_EQ(queued->value(), 2);
}

TEST(BlockingPool, abandoned_work_leaves_the_queue) {
  Home home;
  BlockingPool pool(1, 1);
  Plug plug;
  std::optional<Result<int>> running;
  std::optional<Result<int>> next;
  home.tasks.spawn(run(pool, home, [&] { return plug(); }, running));
  plug.running.wait();
  auto captured = std::make_shared<int>(0);
  bool ran = false;
  {
    TaskGroup given_up;
    std::optional<Result<int>> never_set;
    given_up.spawn(run(pool, home, [captured, &ran] { return ran = true, *captured; }, never_set));
    EXPECT_EQ(pool.queued(), 1U);
    given_up.cancel();
    EXPECT_EQ(pool.queued(), 0U);
    EXPECT_EQ(captured.use_count(), 1);
    EXPECT_FALSE(never_set.has_value());
  }
  home.tasks.spawn(run(pool, home, [] { return 4; }, next));  // the queue has room again
  plug.let_go.count_down();
  home.run_until([&] { return running && next; });
  EXPECT_EQ(next->value(), 4);
  EXPECT_FALSE(ran);
}

TEST(BlockingPool, abandoned_running_work_is_thrown_away_at_home) {
  Home home;
  BlockingPool pool(1, 1);
  Plug plug;
  auto captured = std::make_shared<int>(0);
  std::optional<Result<int>> never_set;
  {
    TaskGroup given_up;
    given_up.spawn(run(pool, home, [captured, &plug] { return plug(); }, never_set));
    plug.running.wait();
  }
  EXPECT_EQ(captured.use_count(), 2);
  plug.let_go.count_down();
  home.run_until([&] { return captured.use_count() == 1; });
  EXPECT_FALSE(never_set.has_value());
}

TEST(BlockingPool, its_end_finishes_what_runs_and_cancels_what_waits) {
  Home home;
  Plug plug;
  std::optional<Result<int>> running;
  std::optional<Result<int>> queued;
  auto pool = std::make_unique<BlockingPool>(1, 4);
  home.tasks.spawn(run(*pool, home, [&] { return plug(); }, running));
  plug.running.wait();
  home.tasks.spawn(run(*pool, home, [] { return 2; }, queued));
  std::thread ender([&] { pool.reset(); });
  home.run_until([&] { return queued.has_value(); });
  EXPECT_EQ(queued->error().code, Errc::closed);
  EXPECT_FALSE(running.has_value());
  plug.let_go.count_down();
  home.run_until([&] { return running.has_value(); });
  EXPECT_EQ(running->value(), 1);
  ender.join();
}

TEST(BlockingPool, a_home_that_has_ended_leaks_nothing) {
  Home home;
  BlockingPool pool(1, 4);
  Plug plug;
  auto captured = std::make_shared<int>(0);
  std::optional<Result<int>> first;
  std::optional<Result<int>> second;
  home.tasks.spawn(run(pool, home, [captured, &plug] { return plug(); }, first));
  plug.running.wait();
  home.tasks.spawn(run(pool, home, [captured] { return 2; }, second));
  home.mailbox.close();
  home.tasks.cancel();
  plug.let_go.count_down();
  while (captured.use_count() != 1) std::this_thread::yield();
  EXPECT_FALSE(first.has_value());
  EXPECT_FALSE(second.has_value());
}

// For half a second, cores start and cancel work as fast as they can.
TEST(BlockingPool, stress) {
  std::atomic<int> alive = 0;
  struct Token {
    explicit Token(std::atomic<int>& alive) : alive(&alive) { ++alive; }
    Token(Token&& other) noexcept : alive(std::exchange(other.alive, nullptr)) {}
    ~Token() {
      if (alive != nullptr) --*alive;
    }
    std::atomic<int>* alive;
  };
  {
    std::array<Home, 3> home_of;
    BlockingPool pool(2, 32);
    std::vector<std::thread> homes;
    for (unsigned seed = 1; seed <= home_of.size(); ++seed) {
      homes.emplace_back([&, seed] {
        Home& home = home_of[seed - 1];
        unsigned random = seed;
        int done = 0;
        const auto work = [](BlockingPool& pool, Home& home, std::atomic<int>& alive, int& done) -> Task<void> {
          auto hold = [token = Token(alive)] { return Token(*token.alive); };
          auto result = co_await pool.run(home.mailbox, std::move(hold));
          EXPECT_TRUE(result || result.error().code == Errc::limit);
          ++done;
        };
        const Instant end = home.reactor->now() + 500ms;
        while (home.reactor->now() < end) {
          random = random * 1664525 + 1013904223;
          for (unsigned i = 0; i < (random >> 28); ++i) home.tasks.spawn(work(pool, home, alive, done));
          if ((random >> 16) % 4 == 0) home.tasks.cancel();
          home.mailbox.deliver();
          home.reactor->turn(home.reactor->now());
        }
        EXPECT_GT(done, 0);
        if (seed != 1) home.run_until([&] { return home.tasks.empty(); });
        // The first core cancels its tasks while their work is still in the pool.
        home.tasks.cancel();
        while (alive.load() != 0) home.mailbox.deliver();
      });
    }
    for (std::thread& home : homes) home.join();
  }
  EXPECT_EQ(alive.load(), 0);
}

}  // namespace
}  // namespace sluice::core
