#include "core/alarm.h"

#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/task.h"

namespace sluice::core {
namespace {

struct Woken {
  bool rung = false;
  Instant at{};
};

Task<void> wait(Reactor& reactor, Alarm& alarm, Instant until, std::vector<Woken>& log) {
  const bool rung = co_await alarm.wait(until);
  log.push_back({rung, reactor.now()});
}

class AlarmTest : public testing::Test {
 protected:
  void run_until(Instant until) {
    while (reactor_.now() < until) reactor_.turn(until);
  }

  SimulatedReactor reactor_{1};
  std::vector<Woken> log_;
  Alarm alarm_{reactor_};
  TaskGroup tasks_;
};

TEST_F(AlarmTest, TimePasses) {
  const Instant until = reactor_.now() + 5s;
  tasks_.spawn(wait(reactor_, alarm_, until, log_));
  run_until(until - 1ms);
  EXPECT_TRUE(log_.empty());
  run_until(until + 10ms);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_FALSE(log_[0].rung);
  EXPECT_GE(log_[0].at, until);
  EXPECT_TRUE(tasks_.empty());
}

TEST_F(AlarmTest, RungBeforeSomebodyWaits) {
  alarm_.ring();
  alarm_.ring();
  tasks_.spawn(wait(reactor_, alarm_, reactor_.now() + 5s, log_));
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_TRUE(log_[0].rung);
  // Both rings together are remembered as one.
  const Instant until = reactor_.now() + 1s;
  tasks_.spawn(wait(reactor_, alarm_, until, log_));
  EXPECT_EQ(log_.size(), 1u);
  run_until(until + 10ms);
  ASSERT_EQ(log_.size(), 2u);
  EXPECT_FALSE(log_[1].rung);
}

TEST_F(AlarmTest, RungWhileSomebodyWaits) {
  const Instant start = reactor_.now();
  tasks_.spawn(wait(reactor_, alarm_, start + 1h, log_));
  run_until(start + 1s);
  alarm_.ring();
  EXPECT_TRUE(log_.empty());  // ring() itself resumes nothing
  alarm_.ring();
  run_until(start + 2s);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_TRUE(log_[0].rung);
  EXPECT_LT(log_[0].at, start + 2s);
  // Neither the first deadline nor the second ring ends the next wait.
  tasks_.spawn(wait(reactor_, alarm_, start + 2h, log_));
  run_until(start + 90min);
  EXPECT_EQ(log_.size(), 1u);
}

TEST_F(AlarmTest, WithoutAnEnd) {
  const Instant start = reactor_.now();
  tasks_.spawn(wait(reactor_, alarm_, never, log_));
  run_until(start + 100h);
  EXPECT_TRUE(log_.empty());
  alarm_.ring();
  run_until(start + 101h);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_TRUE(log_[0].rung);
}

TEST_F(AlarmTest, WhoWaitsMayBeDestroyed) {
  const Instant start = reactor_.now();
  tasks_.spawn(wait(reactor_, alarm_, start + 1s, log_));
  tasks_.cancel();
  run_until(start + 2s);
  EXPECT_TRUE(log_.empty());
  EXPECT_EQ(reactor_.timers().size(), 0u);
  // Another coroutine can wait now.
  tasks_.spawn(wait(reactor_, alarm_, start + 10s, log_));
  alarm_.ring();
  run_until(start + 3s);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_TRUE(log_[0].rung);
}

TEST_F(AlarmTest, ARingIsNotLostWithWhoWaited) {
  const Instant start = reactor_.now();
  tasks_.spawn(wait(reactor_, alarm_, start + 1h, log_));
  alarm_.ring();
  tasks_.cancel();
  run_until(start + 1s);
  EXPECT_TRUE(log_.empty());
  tasks_.spawn(wait(reactor_, alarm_, start + 1h, log_));
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_TRUE(log_[0].rung);
}

Task<void> wait_again_and_again(Reactor& reactor, Alarm& alarm, std::vector<Woken>& log) {
  for (;;) {
    const bool rung = co_await alarm.wait(reactor.now() + 10s);
    log.push_back({rung, reactor.now()});
  }
}

// A ring ends only the current wait early; the next one lasts until its own deadline.
TEST_F(AlarmTest, InALoop) {
  const Instant start = reactor_.now();
  tasks_.spawn(wait_again_and_again(reactor_, alarm_, log_));
  run_until(start + 9s);
  alarm_.ring();
  run_until(start + 18s);
  ASSERT_EQ(log_.size(), 1u);
  run_until(start + 20s);
  ASSERT_EQ(log_.size(), 2u);
  EXPECT_TRUE(log_[0].rung);
  EXPECT_FALSE(log_[1].rung);
  EXPECT_GE(log_[1].at - log_[0].at, 10s);
}

}  // namespace
}  // namespace sluice::core
