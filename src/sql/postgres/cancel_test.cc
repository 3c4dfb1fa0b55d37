#include "sql/postgres/cancel.h"

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "net/stream.h"
#include "sql/postgres/pool.h"

namespace sluice::sql::postgres {
namespace {

using core::Task;

struct CancelTest : testing::Test, Cancel::Session {
  [[nodiscard]] std::size_t in_flight() const override { return flying; }
  void cancel_ended() override { ++ended; }

  CancelTest() {
    EXPECT_TRUE(reactor.listen(listener.handle(), address, {}));
    tasks.spawn(serve());
    cancel.begin(address, {.process = 7, .secret = 11}, false);
  }
  // Closes each connection once the request is there, or keeps it open.
  Task<void> serve() {
    for (;;) {
      (void)co_await listener.readable(never);
      net::Stream stream(reactor);
      const auto accepted = reactor.accept(listener.handle(), stream.handle(), nullptr);
      if (!accepted || !*accepted) continue;
      Buffer bytes;
      while (bytes.size() < 16) {
        if (!co_await stream.read(bytes, 64, never)) break;
      }
      if (!confirms) co_await stream.readable(never);
    }
  }
  void wait() {
    const Instant end = reactor.now() + 1min;
    for (const int before = ended; ended == before && reactor.now() < end;) reactor.turn(end);
  }

  core::SimulatedReactor reactor{1, {}};
  Pool pool{reactor, {}};
  const core::Address address = *core::Address::parse("127.0.0.1:5432");
  net::Stream listener{reactor};
  core::TaskGroup tasks;
  std::size_t flying = 0;
  int ended = 0;
  bool confirms = true;
  Cancel cancel{pool, *this};
};

TEST_F(CancelTest, MayHitTheRequestsThatWereInFlightWhenItWasConfirmed) {
  EXPECT_FALSE(cancel.may_have_hit());
  flying = 3;
  cancel.send();
  EXPECT_TRUE(cancel.is_on_its_way());
  EXPECT_TRUE(cancel.may_have_hit());
  flying = 2;  // one has ended meanwhile
  wait();
  ASSERT_EQ(ended, 1);
  EXPECT_FALSE(cancel.is_on_its_way());
  flying = 5;  // later ones are not hit
  EXPECT_TRUE(cancel.may_have_hit());
  cancel.passed();
  EXPECT_TRUE(cancel.may_have_hit());
  cancel.passed();
  EXPECT_FALSE(cancel.may_have_hit());
}

TEST_F(CancelTest, WithoutConfirmationMayHitAnyLaterRequest) {
  confirms = false;
  flying = 1;
  cancel.send();
  wait();
  ASSERT_EQ(ended, 1);
  for (int i = 0; i < 100; ++i) cancel.passed();
  EXPECT_TRUE(cancel.may_have_hit());
  cancel.end();
  EXPECT_FALSE(cancel.may_have_hit());
}

TEST_F(CancelTest, ThatCannotBeSentHitsNothing) {
  cancel.begin(*core::Address::parse("127.0.0.1:1"), {}, false);
  flying = 1;
  cancel.send();
  wait();
  ASSERT_EQ(ended, 1);
  EXPECT_FALSE(cancel.may_have_hit());
}

TEST_F(CancelTest, OfASessionThatHasEndedSaysNothing) {
  flying = 1;
  cancel.send();
  cancel.end();
  EXPECT_FALSE(cancel.is_on_its_way());
  const Instant end = reactor.now() + 10s;
  while (reactor.now() < end) reactor.turn(end);
  EXPECT_EQ(ended, 0);
  EXPECT_FALSE(cancel.may_have_hit());
}

}  // namespace
}  // namespace sluice::sql::postgres
