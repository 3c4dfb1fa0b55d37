#include "core/cycle_clock.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace sluice::core {
namespace {

// An estimate lies between the readings of the real clock before and after it, except for the error of the rate.
TEST(CycleClock, StaysBesideTheRealClock) {
  CycleClock clock;
  for (int i = 0; i < 20; ++i) {
    const Instant turn = clock.read();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    const Instant estimated = clock.since();
    CycleClock other;
    const Instant now = other.read();
    EXPECT_GE(estimated, turn);
    EXPECT_GE(estimated - turn, 2900us);
    EXPECT_LE(estimated, now + (now - turn) / 20);
  }
}

TEST(CycleClock, AfterALongPauseItReadsTheRealOne) {
  CycleClock clock;
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  clock.read();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const Instant estimated = clock.since();
  CycleClock other;
  EXPECT_LE(estimated, other.read());
  EXPECT_GE(estimated, other.read() - 500ms);
}

}  // namespace
}  // namespace sluice::core
