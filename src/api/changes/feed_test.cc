#include "api/changes/feed.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/task.h"

namespace sluice::api::changes {
namespace {

class FeedTest : public testing::Test {
 protected:
  void add(std::string_view data, bool gap = false) {
    Event event{.number = feed.last() + 1, .gap = gap, .frame = {}};
    append_event(event.frame, event_id("b", event.number), {}, data);
    feed.add(std::make_shared<const Event>(std::move(event)));
  }
  std::string read(std::uint64_t& seen, std::size_t most = 1 << 16) {
    Buffer out;
    feed.read(seen, out, most);
    return std::string(out.view());
  }
  static std::string event(int number, const std::string& data) {
    return "id: b-" + std::to_string(number) + "\ndata: " + data + "\n\n";
  }

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  Feed feed{*reactor, "b", {.events = 4, .bytes = 200}};
};

TEST_F(FeedTest, EveryClientReadsAtItsOwnPace) {
  add("one");
  add("two");
  std::uint64_t first = 0;
  std::uint64_t second = 1;
  EXPECT_EQ(read(first), event(1, "one") + event(2, "two"));
  EXPECT_EQ(read(second), event(2, "two"));
  EXPECT_EQ(read(second), "");
  add("three");
  EXPECT_EQ(read(first), event(3, "three"));
  EXPECT_EQ(feed.counters.sent, 4u);
  EXPECT_EQ(feed.last(), 3u);
  EXPECT_EQ(feed.counters.resets, 0u);
}

TEST_F(FeedTest, AtLeastOneEventAndNotMuchMoreThanAsked) {
  for (const char* data : {"one", "two", "three"}) add(data);
  std::uint64_t seen = 0;
  EXPECT_EQ(read(seen, 1), event(1, "one"));
  EXPECT_EQ(read(seen, 39), event(2, "two"));
  EXPECT_EQ(seen, 2u);
}

TEST_F(FeedTest, WhoIsBehindWhatIsKeptIsReset) {
  for (int i = 1; i <= 4; ++i) add("x");
  EXPECT_EQ(feed.first(), 1u);
  add("x");
  EXPECT_EQ(feed.first(), 2u);
  std::uint64_t seen = 1;
  EXPECT_EQ(read(seen), event(2, "x") + event(3, "x") + event(4, "x") + event(5, "x"));
  seen = 0;
  EXPECT_EQ(read(seen), reset_frame("b-5", "behind"));
  EXPECT_EQ(seen, 5u);
  EXPECT_EQ(feed.counters.resets, 1u);
}

TEST_F(FeedTest, BytesAreBoundedToo) {
  add(std::string(100, 'x'));
  add(std::string(100, 'y'));
  EXPECT_EQ(feed.first(), 2u);
  add(std::string(300, 'z'));
  EXPECT_EQ(feed.first(), 4u);  // no event is kept
  std::uint64_t seen = 2;
  EXPECT_EQ(read(seen), reset_frame("b-3", "behind"));
  add("small");
  EXPECT_EQ(read(seen), event(4, "small"));
}

TEST_F(FeedTest, AGapResetsEverybodyAndForgetsWhatWasBefore) {
  add("one");
  add("two");
  add("gap", true);
  std::uint64_t live = 2;
  EXPECT_EQ(read(live), event(3, "gap"));
  EXPECT_FALSE(feed.resume("b-1"));
  std::uint64_t late = 1;
  EXPECT_EQ(read(late), reset_frame("b-3", "behind"));
  EXPECT_EQ(feed.counters.resets, 2u);
  EXPECT_EQ(feed.counters.sent, 0u);
}

TEST_F(FeedTest, ResumesWhereItsEventsAreKept) {
  EXPECT_EQ(feed.resume("b-0"), 0u);
  for (int i = 1; i <= 10; ++i) add("x");
  EXPECT_EQ(feed.first(), 7u);
  EXPECT_EQ(feed.resume("b-10"), 10u);
  EXPECT_EQ(feed.resume("b-6"), 6u);
  EXPECT_FALSE(feed.resume("b-5"));
  EXPECT_FALSE(feed.resume("b-0"));
  EXPECT_FALSE(feed.resume("c-10"));
  // Another core is ahead of this one.
  EXPECT_EQ(feed.resume("b-14"), 14u);
  EXPECT_FALSE(feed.resume("b-15"));
  EXPECT_FALSE(feed.resume("b-18446744073709551615"));
  std::uint64_t ahead = 12;
  EXPECT_EQ(read(ahead), "");
  for (int i = 11; i <= 13; ++i) add("x");
  EXPECT_EQ(read(ahead), event(13, "x"));
}

core::Task<void> wait_once(Feed& feed, core::Reactor& reactor, Duration patience, int& woken) {
  Feed::Wait wait(feed, patience == Duration{} ? never : reactor.now() + patience);
  co_await wait;
  ++woken;
}

TEST_F(FeedTest, WaitsAreWokenOnceByNewsByTimeAndByTheEnd) {
  int woken = 0;
  core::TaskGroup tasks;
  core::TaskGroup cancelled;
  for (int i = 0; i < 3; ++i) tasks.spawn(wait_once(feed, *reactor, Duration{}, woken));
  cancelled.spawn(wait_once(feed, *reactor, Duration{}, woken));
  cancelled.cancel();
  add("x");
  EXPECT_EQ(woken, 0);
  feed.wake_all();
  EXPECT_EQ(woken, 3);
  tasks.spawn(wait_once(feed, *reactor, 1ms, woken));
  for (int i = 0; i < 1000 && woken == 3; ++i) reactor->turn(reactor->now() + 1ms);
  EXPECT_EQ(woken, 4);
  tasks.spawn(wait_once(feed, *reactor, Duration{}, woken));
  feed.drain();
  EXPECT_EQ(woken, 5);
  tasks.spawn(wait_once(feed, *reactor, Duration{}, woken));  // returns at once, because the feed is draining
  EXPECT_EQ(woken, 6);
}

// A burst of events does not block the core: each turn wakes only some of the clients, in order of arrival.
TEST_F(FeedTest, ManyWaitersAreWokenInTurns) {
  constexpr std::size_t clients = 3 * Feed::clients_a_turn + 5;
  int woken = 0;
  core::TaskGroup tasks;
  core::TaskGroup leaving;
  for (std::size_t i = 0; i < clients; ++i) tasks.spawn(wait_once(feed, *reactor, Duration{}, woken));
  leaving.spawn(wait_once(feed, *reactor, Duration{}, woken));
  add("x");
  feed.wake_all();
  EXPECT_EQ(woken, static_cast<int>(Feed::clients_a_turn));
  add("y");
  feed.wake_all();  // clients that are still to be woken read it then
  EXPECT_EQ(woken, static_cast<int>(Feed::clients_a_turn));
  leaving.cancel();
  for (const std::size_t expected : {2 * Feed::clients_a_turn, 3 * Feed::clients_a_turn, clients, clients}) {
    reactor->turn(reactor->now());
    EXPECT_EQ(woken, static_cast<int>(expected));
  }
}

core::Task<void> wait_forever(Feed& feed, int& woken) {
  for (;;) {
    Feed::Wait wait(feed, never);
    co_await wait;
    ++woken;
  }
}

core::Task<void> wait_and_cancel(Feed& feed, core::TaskGroup& others) {
  Feed::Wait wait(feed, never);
  co_await wait;
  others.cancel();
}

TEST_F(FeedTest, WhoWaitsAgainOrCancelsAnotherWhileAllAreWoken) {
  int woken = 0;
  core::TaskGroup victims;
  core::TaskGroup tasks;
  tasks.spawn(wait_forever(feed, woken));
  tasks.spawn(wait_and_cancel(feed, victims));
  victims.spawn(wait_forever(feed, woken));
  feed.wake_all();
  EXPECT_EQ(woken, 1);
  feed.wake_all();
  EXPECT_EQ(woken, 2);
}

}  // namespace
}  // namespace sluice::api::changes
