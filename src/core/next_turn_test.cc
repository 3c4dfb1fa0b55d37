#include "core/next_turn.h"

#include <optional>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/task.h"

namespace sluice::core {
namespace {

class NextTurnTest : public testing::Test {
 protected:
  Task<void> count(int times) {
    for (int i = 0; i < times; ++i) {
      co_await NextTurn(reactor_);
      ++turns_;
    }
  }
  void turn() { reactor_.turn(reactor_.now()); }

  SimulatedReactor reactor_{1};
  int turns_ = 0;
};

TEST_F(NextTurnTest, GoesOnInTheNextOne) {
  TaskGroup tasks;
  tasks.spawn(count(3));
  for (int turns = 0; turns < 3; ++turns) {
    EXPECT_EQ(turns_, turns);
    turn();
  }
  EXPECT_EQ(turns_, 3);
  EXPECT_TRUE(tasks.empty());
}

TEST_F(NextTurnTest, IsCancelled) {
  std::optional<TaskGroup> tasks(std::in_place);
  tasks->spawn(count(3));
  turn();
  tasks.reset();
  turn();
  EXPECT_EQ(turns_, 1);
}

TEST_F(NextTurnTest, AShareIsOfOneTurn) {
  TurnShare share(reactor_, 100);
  EXPECT_FALSE(share.spend(60));
  EXPECT_TRUE(share.spend(40)) << "the next turn is due";
  EXPECT_FALSE(share.spend(99)) << "and has a share of its own";
  reactor_.turn(reactor_.now() + 1ms);
  EXPECT_FALSE(share.spend(99)) << "as has one that came by itself";
  EXPECT_TRUE(share.spend(1));
  EXPECT_TRUE(share.spend(1000));
}

}  // namespace
}  // namespace sluice::core
