#include "core/timer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::core {
namespace {

struct Recorder : Timer {
  explicit Recorder(std::vector<int>& log, int id)
      : Timer([](Timer& timer) noexcept {
          auto& self = static_cast<Recorder&>(timer);
          self.log.push_back(self.id);
        }),
        log(log),
        id(id) {}
  std::vector<int>& log;
  int id;
};

const Instant start{1234567ns};

TEST(TimerWheel, FiresInOrderAndNeverEarly) {
  std::vector<int> log;
  TimerWheel wheel(start);
  Recorder a(log, 1), b(log, 2), c(log, 3);
  wheel.schedule(c, start + 300s);
  wheel.schedule(b, start + 70ms);
  wheel.schedule(a, start + 5ms + 1ns);
  wheel.advance(start + 5ms);
  EXPECT_TRUE(log.empty());
  wheel.advance(start + 6ms);
  EXPECT_EQ(log, (std::vector{1}));
  wheel.advance(start + 70ms - 1ns);
  EXPECT_EQ(log, (std::vector{1}));
  wheel.advance(start + 299s);
  EXPECT_EQ(log, (std::vector{1, 2}));
  wheel.advance(start + 400s);
  EXPECT_EQ(log, (std::vector{1, 2, 3}));
  EXPECT_EQ(wheel.next(), never);
}

TEST(TimerWheel, CancelAndDestroyDisarm) {
  std::vector<int> log;
  TimerWheel wheel(start);
  auto gone = std::make_unique<Recorder>(log, 1);
  Recorder cancelled(log, 2);
  wheel.schedule(*gone, start + 1ms);
  wheel.schedule(cancelled, start + 1ms);
  gone.reset();
  wheel.cancel(cancelled);
  EXPECT_EQ(wheel.size(), 0u);
  wheel.advance(start + 1s);
  EXPECT_TRUE(log.empty());
}

TEST(TimerWheel, ACallbackMayScheduleForNow) {
  struct Again : Timer {
    explicit Again(TimerWheel& wheel, Instant at)
        : Timer([](Timer& timer) noexcept {
            auto& self = static_cast<Again&>(timer);
            ++self.fired;
            self.wheel.schedule(self, self.at);
          }),
          wheel(wheel),
          at(at) {}
    TimerWheel& wheel;
    Instant at;
    int fired = 0;
  };
  TimerWheel wheel(start);
  Again again(wheel, start);
  wheel.schedule(again, start);
  for (int i = 1; i <= 5; ++i) {
    wheel.advance(start + i * 1ms);
    EXPECT_GE(again.fired, 1);
    EXPECT_LE(again.fired, 2 * i);
  }
  EXPECT_GE(again.fired, 4);
}

TEST(TimerWheel, ACallbackMayDestroyItsNeighbour) {
  struct Killer : Timer {
    explicit Killer(std::unique_ptr<Killer>& victim)
        : Timer([](Timer& timer) noexcept { static_cast<Killer&>(timer).victim.reset(); }), victim(victim) {}
    std::unique_ptr<Killer>& victim;
  };
  TimerWheel wheel(start);
  std::unique_ptr<Killer> first, second;
  first = std::make_unique<Killer>(second);
  second = std::make_unique<Killer>(first);
  wheel.schedule(*first, start + 1ms);
  wheel.schedule(*second, start + 1ms);
  wheel.advance(start + 2ms);
  EXPECT_EQ(static_cast<bool>(first) + static_cast<bool>(second), 1);
  EXPECT_EQ(wheel.size(), 0u);
}

TEST(TimerWheel, AgreesWithASimpleModel) {
  const unsigned seed = 20261121;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  TimerWheel wheel(start);
  std::vector<int> log;
  std::vector<std::unique_ptr<Recorder>> timers;
  std::vector<Instant> due(500, never);
  for (int id = 0; id < 500; ++id) timers.push_back(std::make_unique<Recorder>(log, id));
  Instant now = start;
  for (int step = 0; step < 20000; ++step) {
    const auto id = random() % timers.size();
    if (random() % 4 == 0) {
      wheel.cancel(*timers[id]);
      due[id] = never;
    } else {
      const Duration ahead(static_cast<Duration::rep>(random() % (std::uint64_t{1} << (10 + random() % 33))));
      wheel.schedule(*timers[id], now + ahead);
      due[id] = now + ahead;
    }
    if (random() % 3 != 0) continue;
    const Instant bound = wheel.next();
    for (const Instant when : due) EXPECT_LE(when == never ? when : bound - 1ms, when);
    now += Duration(static_cast<Duration::rep>(random() % (std::uint64_t{1} << (15 + random() % 22))));
    log.clear();
    wheel.advance(now);
    for (const int fired : log) {
      ASSERT_LE(due[static_cast<std::size_t>(fired)], now) << "fired early";
      due[static_cast<std::size_t>(fired)] = never;
    }
    for (const Instant when : due) ASSERT_TRUE(when == never || when > now - 2ms) << "fired late";
  }
}

}  // namespace
}  // namespace sluice::core
