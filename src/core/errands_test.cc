#include "core/errands.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/task.h"

namespace sluice::core {
namespace {

class ErrandsTest : public testing::Test {
 protected:
  Task<void> run(int name, int pieces) {
    for (int i = 0; i < pieces; ++i) {
      co_await errands_.turn();
      log_.push_back(name);
    }
  }
  void turn() { reactor_.turn(reactor_.now()); }

  SimulatedReactor reactor_{1};
  std::vector<int> log_;
  Errands errands_{reactor_};
  TaskGroup tasks_;
};

TEST_F(ErrandsTest, OneInEachTurnInTheirOrder) {
  tasks_.spawn(run(1, 2));
  tasks_.spawn(run(2, 1));
  tasks_.spawn(run(3, 1));
  EXPECT_TRUE(log_.empty());
  for (std::size_t done = 1; done <= 4; ++done) {
    turn();
    EXPECT_EQ(log_.size(), done);
  }
  EXPECT_EQ(log_, (std::vector{1, 2, 3, 1}));
  turn();
  EXPECT_EQ(log_.size(), 4u);
  EXPECT_TRUE(tasks_.empty());
}

TEST_F(ErrandsTest, AreCancelled) {
  std::optional<TaskGroup> others(std::in_place);
  tasks_.spawn(run(1, 1));
  others->spawn(run(2, 1));
  others->spawn(run(3, 1));
  tasks_.spawn(run(4, 1));
  others.reset();
  turn();
  turn();
  EXPECT_EQ(log_, (std::vector{1, 4}));
  others.emplace();
  others->spawn(run(5, 1));
  others.reset();
  turn();
  tasks_.spawn(run(6, 1));
  turn();
  EXPECT_EQ(log_.back(), 6);
}

}  // namespace
}  // namespace sluice::core
