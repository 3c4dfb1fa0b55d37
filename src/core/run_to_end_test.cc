#include "core/run_to_end.h"

#include <gtest/gtest.h>

#include "core/blocking_pool.h"
#include "core/simulated_reactor.h"
#include "core/sleep.h"

namespace sluice::core {
namespace {

Task<int> later(Reactor& reactor, Duration wait, bool& gone) {
  struct Gone {
    bool& gone;
    ~Gone() { gone = true; }
  } const guard{gone};
  co_await Sleep(reactor, reactor.now() + wait);
  co_return 7;
}

TEST(RunToEnd, TurnsTheLoopUntilThereIsAResult) {
  SimulatedReactor reactor(1);
  bool gone = false;
  EXPECT_EQ(run_to_end(reactor, nullptr, later(reactor, 3s, gone)), 7);
  EXPECT_TRUE(gone);
  EXPECT_EQ(run_to_end(reactor, nullptr, []() -> Task<int> { co_return 8; }()), 8) << "which may be there at once";
}

TEST(RunToEnd, DeliversWhatThreadsSay) {
  const auto reactor = make_epoll_reactor();
  Mailbox mailbox(*reactor);
  BlockingPool threads{1, 4};
  const auto ask = [](BlockingPool& pool, Mailbox& home) -> Task<int> {
    auto work = [] { return 9; };
    co_return (co_await pool.run(home, std::move(work))).value_or(0);
  };
  EXPECT_EQ(run_to_end(*reactor, &mailbox, ask(threads, mailbox)), 9);
}

TEST(RunToEnd, GivingUpCancelsIt) {
  SimulatedReactor reactor(1);
  bool gone = false;
  int asked = 0;
  EXPECT_FALSE(run_unless([&] { return ++asked == 5; }, reactor, nullptr, later(reactor, 1h, gone)));
  EXPECT_TRUE(gone);
  EXPECT_EQ(asked, 5);
}

}  // namespace
}  // namespace sluice::core
