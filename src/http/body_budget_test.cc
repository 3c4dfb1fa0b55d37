#include "http/body_budget.h"

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"

namespace sluice::http {
namespace {

using Taken = BodyBudget::Share::Taken;

struct TestShare final : BodyBudget::Share {
  TestShare(BodyBudget& budget, std::uint64_t& connection) : Share(budget, connection) {}
  void cut() override { ++cuts; }
  int cuts = 0;
};

class BodyBudgetTest : public testing::Test {
 protected:
  void pass(Duration time) {
    const Instant until = reactor.now() + time;
    while (reactor.now() < until) reactor.turn(until);
  }

  static constexpr std::uint64_t limit = 400'000;  // which allows 100,000 for each connection
  core::SimulatedReactor reactor{1};
  BodyBudget::Counters counters;
  BodyBudget budget{reactor, limit, counters};
  std::uint64_t connections[6]{};
};

TEST_F(BodyBudgetTest, CountsWhatIsTakenAndGivenBack) {
  {
    TestShare one(budget, connections[0]);
    TestShare other(budget, connections[0]);
    EXPECT_EQ(one.take(30'000), Taken::yes);
    EXPECT_EQ(other.take(20'000), Taken::yes);
    EXPECT_EQ(counters.held, 50'000u);
    EXPECT_EQ(connections[0], 50'000u);
    one.give_back(10'000);
    EXPECT_EQ(one.bytes(), 20'000u);
    EXPECT_EQ(counters.held, 40'000u);
    other.release();
    EXPECT_EQ(counters.held, 20'000u);
  }
  EXPECT_EQ(counters.held, 0u);
  EXPECT_EQ(connections[0], 0u);
  EXPECT_EQ(counters.peak, 50'000u);
  EXPECT_EQ(counters.refused, 0u);
}

TEST_F(BodyBudgetTest, ALowerLimitTakesNothingAway) {
  TestShare one(budget, connections[0]);
  TestShare other(budget, connections[1]);
  EXPECT_EQ(one.take(90'000), Taken::yes);
  budget.set_limit(40'000);
  EXPECT_EQ(one.bytes(), 90'000u);
  EXPECT_EQ(other.take(1), Taken::no);
  EXPECT_FALSE(other.occupy(1, 0));
  one.release();
  EXPECT_EQ(other.take(10'000), Taken::yes);
  EXPECT_EQ(counters.held, 10'000u);
}

TEST_F(BodyBudgetTest, AConnectionHasAQuarter) {
  TestShare one(budget, connections[0]);
  TestShare other(budget, connections[0]);
  EXPECT_EQ(one.take(100'001), Taken::too_long);
  EXPECT_EQ(one.take(60'000), Taken::yes);
  EXPECT_EQ(other.take(40'001), Taken::no);
  EXPECT_EQ(one.take(40'001), Taken::too_long);
  EXPECT_EQ(other.take(40'000), Taken::yes);
  EXPECT_EQ(one.take(1), Taken::no);
  EXPECT_EQ(counters.refused, 4u);
  EXPECT_EQ(counters.held, 100'000u);
}

TEST_F(BodyBudgetTest, AnswersShareItAndTheStillestIsCut) {
  TestShare moving(budget, connections[0]);
  TestShare still(budget, connections[1]);
  TestShare beside(budget, connections[1]);
  ASSERT_TRUE(moving.hold_answer(90'000));
  ASSERT_TRUE(still.hold_answer(100'000));
  EXPECT_FALSE(beside.hold_answer(1)) << "its connection holds a quarter";
  // A response longer than a connection may hold passes if the connection holds nothing else.
  TestShare long_one(budget, connections[2]);
  EXPECT_TRUE(long_one.hold_answer(210'000));
  TestShare late(budget, connections[3]);
  EXPECT_FALSE(late.hold_answer(50'000)) << "all have moved lately";
  pass(2s);
  moving.took(BodyBudget::pace_bytes);
  long_one.took(BodyBudget::pace_bytes - 1);
  EXPECT_TRUE(late.hold_answer(50'000));
  EXPECT_EQ(still.cuts, 1);
  EXPECT_EQ(moving.cuts + long_one.cuts, 0);
  EXPECT_EQ(counters.held, 350'000u);
  EXPECT_EQ(connections[1], 0u);
  EXPECT_EQ(counters.cut, 1u);
  EXPECT_FALSE(TestShare(budget, connections[4]).hold_answer(400'001)) << "more than the core has";
}

TEST_F(BodyBudgetTest, WhereAllAreLivelyTheNewOneIsRefused) {
  TestShare shares[]{{budget, connections[0]},
                     {budget, connections[1]},
                     {budget, connections[2]},
                     {budget, connections[3]},
                     {budget, connections[4]}};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(shares[i].take(100'000), Taken::yes);
  const TestShare::Waiting waiting(shares[0]);
  EXPECT_EQ(shares[4].take(1), Taken::no);
  EXPECT_EQ(shares[0].cuts, 0);
  shares[2].release();
  EXPECT_EQ(shares[4].take(1), Taken::yes);
}

TEST_F(BodyBudgetTest, TheStillestOfThoseThatWaitAreCutAndNoMoreThanNeeded) {
  TestShare shares[]{{budget, connections[0]},
                     {budget, connections[1]},
                     {budget, connections[2]},
                     {budget, connections[3]},
                     {budget, connections[4]}};
  const TestShare::Waiting first(shares[0]);
  const TestShare::Waiting third(shares[2]);
  const TestShare::Waiting fourth(shares[3]);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(shares[i].take(80'000), Taken::yes);
  pass(500ms);
  EXPECT_EQ(shares[0].take(20'000),
            Taken::yes);  // it has grown, so the third one has made no progress for the longest time
  EXPECT_EQ(shares[1].take(20'000), Taken::yes);
  pass(500ms);
  EXPECT_EQ(shares[4].take(90'000), Taken::yes);
  EXPECT_EQ(shares[2].cuts, 1);
  EXPECT_TRUE(shares[2].is_cut());
  EXPECT_EQ(shares[2].bytes(), 0u);
  EXPECT_EQ(shares[2].take(1), Taken::no);
  EXPECT_EQ(shares[0].cuts + shares[1].cuts + shares[3].cuts, 0);
  EXPECT_EQ(counters.cut, 1u);
  EXPECT_EQ(counters.held, 370'000u);
  EXPECT_EQ(connections[2], 0u);
}

TEST_F(BodyBudgetTest, AFewBytesNowAndThenAreStill) {
  TestShare drips(budget, connections[0]);
  TestShare flows(budget, connections[1]);
  TestShare others[]{{budget, connections[2]}, {budget, connections[3]}, {budget, connections[4]}};
  EXPECT_EQ(drips.take(50'000), Taken::yes);
  EXPECT_EQ(flows.take(20'000), Taken::yes);
  for (int i = 0; i < 4; ++i) {
    pass(300ms);
    EXPECT_EQ(drips.take(1000), Taken::yes);
    EXPECT_EQ(flows.take(BodyBudget::pace_bytes), Taken::yes);
  }
  const TestShare::Waiting first(drips);
  const TestShare::Waiting second(flows);
  EXPECT_EQ(others[0].take(100'000), Taken::yes);
  EXPECT_EQ(others[1].take(100'000), Taken::yes);
  EXPECT_EQ(others[2].take(100'000), Taken::yes);
  EXPECT_EQ(drips.cuts, 1);
  EXPECT_EQ(flows.cuts, 0);
}

TEST_F(BodyBudgetTest, WhatARequestOccupiesIsNotItsConnections) {
  TestShare one(budget, connections[0]);
  TestShare other(budget, connections[0]);
  ASSERT_TRUE(one.occupy(5'000, 200'000));
  EXPECT_EQ(counters.held, 205'000u);
  EXPECT_EQ(connections[0], 0u);
  EXPECT_EQ(one.take(100'000), Taken::yes);
  EXPECT_FALSE(other.occupy(5'000, 200'000));
  EXPECT_EQ(counters.refused, 1u);
  one.handled();
  EXPECT_EQ(counters.held, 105'000u);
  EXPECT_TRUE(other.occupy(5'000, 200'000));
  one.release();
  EXPECT_EQ(counters.held, 210'000u);
  one.vacate();
  other.vacate();
  EXPECT_EQ(counters.held, 0u);
}

TEST_F(BodyBudgetTest, OneThatWaitsForItsFirstByteIsCutAndKeepsWhatItTakesUntilItsEnd) {
  TestShare still[]{{budget, connections[0]}, {budget, connections[1]}, {budget, connections[2]}};
  for (TestShare& share : still) ASSERT_TRUE(share.occupy(10'000, 120'000));
  const TestShare::Waiting first(still[0]);
  const TestShare::Waiting second(still[1]);
  TestShare comes(budget, connections[3]);
  EXPECT_FALSE(comes.occupy(10'000, 120'000));
  pass(1s);
  EXPECT_TRUE(comes.occupy(10'000, 120'000));
  EXPECT_EQ(still[0].cuts, 1);
  EXPECT_EQ(still[1].cuts + still[2].cuts, 0);
  EXPECT_EQ(counters.held, 10'000u + 3 * 130'000u);
  still[0].vacate();
  EXPECT_EQ(counters.held, 3 * 130'000u);
}

TEST_F(BodyBudgetTest, WhatNobodyWaitsForIsNotCut) {
  TestShare shares[]{{budget, connections[0]},
                     {budget, connections[1]},
                     {budget, connections[2]},
                     {budget, connections[3]},
                     {budget, connections[4]}};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(shares[i].take(100'000), Taken::yes);
  pass(10s);
  {
    const TestShare::Waiting waited(shares[1]);
  }
  EXPECT_EQ(shares[4].take(1), Taken::no);
  EXPECT_EQ(counters.cut, 0u);
  EXPECT_EQ(counters.refused, 1u);
}

}  // namespace
}  // namespace sluice::http
