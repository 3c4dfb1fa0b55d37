#include "http/compress/turnstile.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/task.h"

namespace sluice::http::compress {
namespace {

class TurnstileTest : public testing::Test {
 protected:
  core::SimulatedReactor reactor{1};
  std::unique_ptr<Turnstile> turnstile = std::make_unique<Turnstile>(reactor);
  std::string order;

  void step() { reactor.turn(reactor.now()); }
  // Uses up `times` whole turns and records its name each time.
  core::Task<void> work(char name, int times) {
    for (int i = 0; i < times; ++i) {
      if (!turnstile->open()) {
        Turnstile::Turn turn(*turnstile);
        co_await turn;
      }
      order += name;
      turnstile->count(Turnstile::turn_bytes);
    }
  }
};

TEST_F(TurnstileTest, OneTurnTakesSoMuchAndNoMore) {
  EXPECT_TRUE(turnstile->open());
  turnstile->count(Turnstile::turn_bytes - 1);
  EXPECT_TRUE(turnstile->open());
  turnstile->count(1);
  EXPECT_FALSE(turnstile->open());
  step();
  EXPECT_TRUE(turnstile->open());
}

TEST_F(TurnstileTest, WhoWaitsGoesOnInOrderOneATurn) {
  core::TaskGroup tasks;
  for (const char name : {'a', 'b', 'c'}) tasks.spawn(work(name, 3));
  EXPECT_EQ(order, "a");
  for (std::size_t turns = 2; turns <= 9; ++turns) {
    step();
    EXPECT_EQ(order.size(), turns);
  }
  EXPECT_EQ(order, "aabcabcbc") << "nobody starves";
  EXPECT_TRUE(tasks.empty());
}

TEST_F(TurnstileTest, NobodyOvertakesThoseWhoWait) {
  core::TaskGroup tasks;
  tasks.spawn(work('a', 3));
  EXPECT_FALSE(turnstile->open());
  tasks.spawn(work('b', 1));
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(order, "aaba");
}

TEST_F(TurnstileTest, WhoIsCancelledLeavesTheLine) {
  auto first = std::make_unique<core::TaskGroup>();
  auto second = std::make_unique<core::TaskGroup>();
  auto third = std::make_unique<core::TaskGroup>();
  first->spawn(work('a', 2));
  second->spawn(work('b', 1));
  third->spawn(work('c', 1));
  second.reset();
  step();
  step();
  step();
  EXPECT_EQ(order, "aac");
  first.reset();
}

TEST_F(TurnstileTest, MayGoWhenNobodyWaitsAnyMore) {
  auto tasks = std::make_unique<core::TaskGroup>();
  tasks->spawn(work('a', 2));
  tasks.reset();
  turnstile.reset();
  step();
  EXPECT_EQ(order, "a");
}

}  // namespace
}  // namespace sluice::http::compress
