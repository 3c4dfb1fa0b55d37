#include "sql/postgres/gathering.h"

#include <gtest/gtest.h>

namespace sluice::sql::postgres {
namespace {

constexpr std::size_t piece = 8 << 10;

// The pause after an answer that delivers `at_a_time` pieces every `each`.
Duration pause_after(std::size_t pieces, std::size_t at_a_time, Duration each) {
  Instant now = Instant{} + 1h;
  Gathering gathering(now);
  Duration pause{};
  for (std::size_t i = 0; i < pieces; i += at_a_time) {
    for (std::size_t j = 0; j < at_a_time; ++j) gathering.received(piece);
    now += each * static_cast<Duration::rep>(at_a_time);
    pause = gathering.pause(now);
  }
  return pause;
}

TEST(Gathering, TheBeginningIsTakenAsItComes) {
  const std::size_t beginning = Gathering::beginning_bytes / piece;
  EXPECT_EQ(pause_after(1, 1, 50us), Duration::zero());
  EXPECT_EQ(pause_after(beginning - 1, 1, 50us), Duration::zero());
  EXPECT_GT(pause_after(beginning, 1, 50us), Duration::zero());
}

TEST(Gathering, APauseBringsWhatIsWantedHoweverMuchCameBefore) {
  for (const std::size_t at_a_time : {1, 2, 8, 16}) EXPECT_EQ(pause_after(1600, at_a_time, 20us), 120us) << at_a_time;
}

TEST(Gathering, APauseIsNeitherLongNorNext) {
  EXPECT_EQ(pause_after(1600, 1, 1us), Gathering::shortest);
  EXPECT_EQ(pause_after(1600, 16, 1us), Gathering::shortest);
  EXPECT_EQ(pause_after(1600, 1, 100us), Gathering::longest);
}

TEST(Gathering, WhatComesSlowlyIsNotWaitedForLonger) {
  EXPECT_GT(pause_after(1600, 1, 100us), Duration::zero());
  EXPECT_EQ(pause_after(1600, 1, 101us), Duration::zero());
  EXPECT_EQ(pause_after(1600, 1, 10s), Duration::zero());
}

TEST(Gathering, AfterAPauseThatBroughtNothingTheNextPieceWakes) {
  Instant now = Instant{} + 1h;
  Gathering gathering(now);
  gathering.received(2 << 20);
  EXPECT_GT(gathering.pause(now += 1ms), Duration::zero());
  EXPECT_EQ(gathering.pause(now += 500us), Duration::zero());
  gathering.received(piece);
  EXPECT_GT(gathering.pause(now += 100us), Duration::zero());
  gathering.begin(now);
  gathering.received(piece);
  EXPECT_EQ(gathering.pause(now += 100us), Duration::zero());
}

}  // namespace
}  // namespace sluice::sql::postgres
