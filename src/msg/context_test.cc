#include "msg/context.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/core.h"
#include "core/simulated_reactor.h"
#include "core/sleep.h"

namespace sluice::msg {
namespace {

class Counter final : public Service {
 public:
  int calls = 0;
};
class Missing final : public Service {};

// Two cores whose rings have room for four messages.
class ContextTest : public testing::Test {
 protected:
  struct Half {
    Half(core::Mesh& mesh, unsigned index, core::BlockingPool& threads, std::vector<Context*>& contexts)
        : core(mesh, index, std::make_unique<core::SimulatedReactor>(index + 1, core::Faults{})),
          sessions(core.reactor(), index, dispatcher, nullptr, {}),
          context({core.reactor(), core.mailbox(), core.mesh(), threads}, core.tasks(), sessions, contexts) {
      contexts[index] = &context;
      context.add(std::make_unique<Counter>());
    }
    void pass(Duration time) {
      const Instant until = core.reactor().now() + time;
      while (core.reactor().now() < until) core.step(until);
    }
    int& calls() { return context.find<Counter>()->calls; }
    core::Core core;
    Dispatcher dispatcher;
    Sessions sessions;
    Context context;
  };

  core::Mesh mesh_{2, 4};
  core::BlockingPool threads_{1, 1};
  std::vector<Context*> contexts_{2, nullptr};
  Half here_{mesh_, 0, threads_, contexts_};
  Half there_{mesh_, 1, threads_, contexts_};
};

TEST_F(ContextTest, MessagesThatWaitForACoreAreLimited) {
  int sent = 0;
  int dropped = 0;
  for (int i = 0; i < 20'000; ++i) {
    ++(here_.context.on_every_core<Counter>([](Counter& counter) { ++counter.calls; }) ? sent : dropped);
  }
  EXPECT_GT(dropped, 3000);
  EXPECT_EQ(here_.calls(), 20'000);
  EXPECT_FALSE(here_.context.broadcast({.id = 1}));
  for (int i = 0; i < 5000; ++i) {
    there_.pass(1ms);
    here_.pass(1ms);
  }
  EXPECT_EQ(there_.calls(), sent);
  EXPECT_TRUE(here_.context.broadcast({.id = 1})) << "there is room again";
}

TEST_F(ContextTest, MessagesWaitAsLongAsACoreIsSlow) {
  for (int i = 0; i < 10; ++i) here_.context.on_every_core<Counter>([](Counter& counter) { ++counter.calls; });
  here_.pass(1min);
  EXPECT_EQ(there_.calls(), 0);
  for (int i = 0; i < 5; ++i) {
    there_.pass(1ms);
    here_.pass(1ms);
  }
  EXPECT_EQ(there_.calls(), 10);
}

TEST_F(ContextTest, OtherThreadsReachIt) {
  std::size_t accepted = 0;
  std::thread([&] {
    while (here_.context.post_from_anywhere([this] { ++here_.calls(); })) ++accepted;
  }).join();
  EXPECT_EQ(accepted, Context::most_posted);
  EXPECT_EQ(here_.calls(), 0);
  here_.pass(1s);
  EXPECT_EQ(here_.calls(), static_cast<int>(accepted));
  EXPECT_TRUE(here_.context.post_from_anywhere([] { throw std::runtime_error("of a thread"); }));
  EXPECT_TRUE(here_.context.post_from_anywhere([this, own = std::make_unique<int>(1)] { here_.calls() += *own; }));
  here_.pass(1s);
  EXPECT_EQ(here_.calls(), static_cast<int>(accepted) + 1);
}

TEST_F(ContextTest, ExceptionsAreLogged) {
  const auto throws = [](Counter& counter) {
    ++counter.calls;
    throw std::runtime_error("of a function");
  };
  EXPECT_TRUE(here_.context.try_post<Counter>(1, throws));
  there_.pass(1ms);
  EXPECT_EQ(there_.calls(), 1);
  int ticks = 0;
  here_.context.every(10ms, [&ticks] {
    ++ticks;
    throw std::runtime_error("of a tick");
  });
  here_.pass(35ms);
  EXPECT_EQ(ticks, 3);
}

TEST_F(ContextTest, TheCallerGetsTheException) {
  const auto throws = [](Counter& counter) -> int {
    ++counter.calls;
    throw std::runtime_error("of a function");
  };
  const auto throws_later = [this](Counter& counter) -> core::Task<int> {
    ++counter.calls;
    co_await core::Sleep(there_.core.reactor(), there_.core.reactor().now() + 1ms);
    throw std::runtime_error("of a task");
  };
  const auto adds = [](Counter& counter) { counter.calls += 10; };
  std::vector<std::string> caught;
  const auto ask = [&](auto fn) -> core::Task<void> {
    try {
      const auto result = co_await here_.context.call<Counter>(1, never, fn);
      caught.emplace_back(result ? "none" : "an error");
    } catch (const std::runtime_error& error) {
      caught.emplace_back(error.what());
    }
  };
  core::TaskGroup tasks;
  tasks.spawn(ask(throws));
  tasks.spawn(ask(throws_later));
  tasks.spawn(ask(adds));
  for (int i = 0; i < 5; ++i) {
    there_.pass(5ms);
    here_.pass(5ms);
  }
  std::ranges::sort(caught);
  EXPECT_EQ(caught, (std::vector<std::string>{"none", "of a function", "of a task"}));
  EXPECT_EQ(there_.calls(), 12);
}

TEST_F(ContextTest, ATaskOnAnotherCoreFails) {
  const auto throws_later = [this](Counter& counter) -> core::Task<void> {
    ++counter.calls;
    co_await core::Sleep(there_.core.reactor(), there_.core.reactor().now() + 1ms);
    throw std::runtime_error("of a task");
  };
  EXPECT_TRUE(here_.context.try_post<Counter>(1, throws_later));
  there_.pass(1s);
  EXPECT_EQ(there_.calls(), 1);
}

TEST_F(ContextTest, SessionsWaitUntilTheirMessagesAreSent) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(here_.context.broadcast("a", Frame{.id = 1}));
  EXPECT_FALSE(here_.sessions.sends_wait()) << "the ring has room for them";
  EXPECT_TRUE(here_.context.broadcast("a", Frame{.id = 1}));
  ASSERT_TRUE(here_.sessions.sends_wait());
  bool sent = false;
  core::TaskGroup tasks;
  tasks.spawn([](Sessions& sessions, bool& done) -> core::Task<void> {
    co_await sessions.sent();
    done = true;
  }(here_.sessions, sent));
  here_.pass(1s);
  EXPECT_FALSE(sent);
  there_.pass(1ms);
  here_.pass(1ms);
  EXPECT_TRUE(sent);
  EXPECT_FALSE(here_.sessions.sends_wait());
}

TEST_F(ContextTest, AServiceThatTheHostLacks) {
  EXPECT_EQ(here_.context.find<Missing>(), nullptr);
  EXPECT_THROW((void)here_.context.try_post<Missing>(1, [](Missing&) {}), std::logic_error);
  EXPECT_THROW((void)here_.context.call<Missing>(1, never, [](Missing&) {}), std::logic_error);
}

TEST_F(ContextTest, AnExceptionFromATaskIsLogged) {
  bool ran = false;
  here_.context.spawn([](bool& ran) -> core::Task<void> {
    ran = true;
    throw std::runtime_error("a task's fault");
    co_return;
  }(ran));
  EXPECT_TRUE(ran);
  here_.pass(1ms);
}

TEST_F(ContextTest, AGroupSpansTheCores) {
  class Heard final : public Session {
   public:
    explicit Heard(Sessions& sessions) : Session(sessions, sessions.next_id()) {
      sessions.add(*this);
      sessions.set_open(*this);
    }
    [[nodiscard]] bool secure() const override { return false; }
    std::size_t bytes = 0;

   private:
    void turn_end() override {
      const Outbox now = std::move(outbox_);
      bytes += now.size();
    }
  };
  auto& here = *new Heard(here_.sessions);
  auto& there = *new Heard(there_.sessions);
  auto& other = *new Heard(there_.sessions);
  here_.context.join(here, "room 7");
  there_.context.join(there, "room 7");
  EXPECT_TRUE(here_.context.broadcast("room 7", Frame{.id = 1}));
  here_.pass(1ms);
  there_.pass(1ms);
  EXPECT_EQ(here.bytes, header_size);
  EXPECT_EQ(there.bytes, header_size);
  EXPECT_EQ(other.bytes, 0u);
  there_.context.leave(there, "room 7");
  EXPECT_TRUE(here_.context.broadcast("room 7", Frame{.id = 1}));
  here_.pass(1ms);
  there_.pass(1ms);
  EXPECT_EQ(there.bytes, header_size);
  here_.context.leave_all(here);
  for (Half* half : {&here_, &there_}) {
    half->sessions.cut();
    half->pass(1ms);
  }
}

}  // namespace
}  // namespace sluice::msg
