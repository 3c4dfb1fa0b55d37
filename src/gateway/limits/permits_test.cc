#include "gateway/limits/permits.h"

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "gateway/limits/cores_for_tests.h"

namespace sluice::gateway::limits {
namespace {

using for_tests::Cores;
using Answer = Permits::Answer;

class Bound {
 public:
  Bound(unsigned count, const Room& room, std::uint32_t keys = 100, std::size_t ring_capacity = 256)
      : cores(count, ring_capacity), shared(std::make_shared<Shared>(count)) {
    for (unsigned i = 0; i < count; ++i) {
      parts.push_back(Permits::of(shared, cores[i].reactor(), cores[i].mesh(), room, keys));
    }
  }

  [[nodiscard]] Key key_of(unsigned owner, std::uint64_t number = 1) const {
    for (;; ++number) {
      const Key key{.low = number * 0x9e3779b97f4a7c15 | 1, .high = number * 0xc2b2ae3d27d4eb4f};
      if (shared->owner_of(key) == owner) return key;
    }
  }

  // A request that asks for a permit, runs if it gets one, and ends. It may also be cancelled before.
  struct Request {
    unsigned core = 0;
    std::optional<Answer> answer{};
    bool ended = false;
    core::TaskGroup waiting{};
    [[nodiscard]] bool runs() const { return answer == Answer::granted && !ended; }
  };
  Request& begin(unsigned core, const Key& key) {
    Request& request = requests.emplace_back();
    request.core = core;
    auto async = parts[core]->take(key);
    if (async.ready()) {
      request.answer = async.get();
    } else {
      request.waiting.spawn([](core::Task<Answer> task, Request& into) -> core::Task<void> {
        into.answer = co_await std::move(task);
      }(async.take_task(), request));
    }
    return request;
  }
  Answer take(unsigned core, const Key& key) {
    Request& request = begin(core, key);
    cores.settle();
    EXPECT_TRUE(request.answer);
    return *request.answer;
  }
  void end(Request& request, const Key& key) {
    request.ended = true;
    parts[request.core]->give_back(key);
  }
  [[nodiscard]] auto running() const { return std::ranges::count_if(requests, &Request::runs); }

  Cores cores;
  std::shared_ptr<Shared> shared;
  std::vector<std::shared_ptr<Permits>> parts;
  std::deque<Request> requests;
};

TEST(Permits, AsManyAsMayWhicheverCoresAsk) {
  for (const unsigned owner : {0u, 1u}) {
    Bound bound(2, {.requests = 3});
    const Key key = bound.key_of(owner);
    for (const unsigned core : {0u, 1u, 0u}) EXPECT_EQ(bound.take(core, key), Answer::granted);
    EXPECT_EQ(bound.take(0, key), Answer::refused);
    EXPECT_EQ(bound.take(1, key), Answer::refused);
    EXPECT_EQ(bound.take(1, bound.key_of(owner, 1000)), Answer::granted);
    bound.end(bound.requests[1], key);
    bound.cores.settle();
    EXPECT_EQ(bound.take(0, key), Answer::granted);
    EXPECT_EQ(bound.parts[owner]->running(key), 3u);
  }
}

TEST(Permits, WhoWaitsIsNextInTheOrderOfComing) {
  Bound bound(2, {.requests = 1, .queue = 2});
  const Key key = bound.key_of(1);
  EXPECT_EQ(bound.take(0, key), Answer::granted);
  Bound::Request& second = bound.begin(0, key);
  bound.cores.settle();
  Bound::Request& third = bound.begin(1, key);
  bound.cores.settle();
  EXPECT_EQ(bound.take(0, key), Answer::refused);
  EXPECT_EQ(bound.take(1, key), Answer::refused);
  EXPECT_FALSE(second.answer || third.answer);
  bound.end(bound.requests[0], key);
  bound.cores.settle();
  EXPECT_EQ(second.answer, Answer::granted);
  EXPECT_FALSE(third.answer);
  // A new request does not overtake it.
  Bound::Request& fourth = bound.begin(1, key);
  bound.end(second, key);
  bound.cores.settle();
  EXPECT_EQ(third.answer, Answer::granted);
  EXPECT_FALSE(fourth.answer);
  bound.end(third, key);
  bound.cores.settle();
  EXPECT_EQ(fourth.answer, Answer::granted);
}

TEST(Permits, WaitingHasAnEnd) {
  for (const unsigned core : {0u, 1u}) {
    Bound bound(2, {.requests = 1, .queue = 5, .wait = 300ms});
    const Key key = bound.key_of(1);
    EXPECT_EQ(bound.take(0, key), Answer::granted);
    Bound::Request& late = bound.begin(core, key);
    bound.cores.pass(299ms);
    EXPECT_FALSE(late.answer);
    EXPECT_EQ(bound.parts[1]->waiting(key), 1u);
    bound.cores.pass(3ms);
    EXPECT_EQ(late.answer, Answer::late);
    EXPECT_EQ(bound.parts[1]->waiting(key), 0u);
    bound.end(bound.requests[0], key);
    bound.cores.settle();
    EXPECT_EQ(bound.parts[1]->running(key), 0u);
  }
}

TEST(Permits, WhoGoesAwayLeavesItsPlace) {
  for (const unsigned core : {0u, 1u}) {
    Bound bound(2, {.requests = 1, .queue = 1});
    const Key key = bound.key_of(1);
    EXPECT_EQ(bound.take(1, key), Answer::granted);
    Bound::Request& gone = bound.begin(core, key);
    bound.cores.settle();
    gone.waiting.cancel();
    bound.cores.settle();
    EXPECT_EQ(bound.parts[1]->waiting(key), 0u);
    // Granted, and cancelled before the grant arrives.
    Bound::Request& other = bound.begin(core, key);
    bound.cores.settle();
    bound.end(bound.requests[0], key);
    EXPECT_EQ(bound.parts[1]->running(key), 1u);
    EXPECT_FALSE(other.answer);
    other.waiting.cancel();
    bound.cores.settle();
    EXPECT_EQ(bound.parts[1]->running(key), 0u);
  }
}

TEST(Permits, AnOwnerThatIsSilentIsNotWaitedForForLong) {
  Bound bound(2, {.requests = 1});
  Bound::Request& request = bound.begin(0, bound.key_of(1));
  bound.cores.now += Permits::patience + 2ms;
  bound.cores.step(0);
  bound.cores.step(0);
  EXPECT_EQ(request.answer, Answer::late);
  bound.cores.settle();  // its permit is given back
  EXPECT_EQ(bound.parts[1]->keys(), 0u);
}

TEST(Permits, FullTablesRefuseNewKeys) {
  Bound bound(1, {.requests = 1}, 2);
  for (const std::uint64_t number : {1u, 100u}) EXPECT_EQ(bound.take(0, bound.key_of(0, number)), Answer::granted);
  EXPECT_EQ(bound.take(0, bound.key_of(0, 200)), Answer::full);
  bound.end(bound.requests[0], bound.key_of(0, 1));
  EXPECT_EQ(bound.take(0, bound.key_of(0, 200)), Answer::granted);
}

TEST(Permits, MoreRoomIsForThoseWhoWait) {
  Bound bound(2, {.requests = 1, .queue = 5});
  const Key key = bound.key_of(1);
  EXPECT_EQ(bound.take(0, key), Answer::granted);
  for (int i = 0; i < 3; ++i) bound.begin(0, key);
  bound.cores.settle();
  for (const auto& part : bound.parts) part->serve({.requests = 3, .queue = 5}, nullptr);
  bound.cores.settle();
  EXPECT_EQ(bound.running(), 3);
  // A smaller limit: running requests continue, and their permits are not passed on.
  for (const auto& part : bound.parts) part->serve({.requests = 1, .queue = 5}, nullptr);
  bound.end(bound.requests[0], key);
  bound.end(bound.requests[1], key);
  bound.cores.settle();
  EXPECT_EQ(bound.running(), 1);
  bound.end(bound.requests[2], key);
  bound.cores.settle();
  EXPECT_EQ(bound.running(), 1);
}

TEST(Permits, APartThatHasEndedSaysSo) {
  Bound bound(2, {.requests = 1});
  const Key key = bound.key_of(1);
  bound.parts.pop_back();
  EXPECT_EQ(bound.take(0, key), Answer::alone);
}

TEST(Permits, APermitForAPartThatHasEndedGoesBack) {
  Bound bound(2, {.requests = 1});
  const Key key = bound.key_of(1);
  bound.begin(0, key);
  bound.cores.step(1);  // grants it
  EXPECT_EQ(bound.parts[1]->running(key), 1u);
  bound.requests.clear();
  bound.parts[0].reset();
  bound.cores.settle();
  EXPECT_EQ(bound.parts[1]->running(key), 0u);
}

// With any interleaving of requests, ends and cancellations, there are never too many permits, and in the end all
// permits have been given back.
void interleave(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  const auto count = static_cast<unsigned>(1 + below(4));
  const auto most = static_cast<std::uint32_t>(1 + below(4));
  Bound bound(count, {.requests = most, .queue = static_cast<std::uint32_t>(below(4)), .wait = 20ms}, 100,
              below(2) == 0 ? 256 : 2);
  const Key key = bound.key_of(static_cast<unsigned>(below(count)));
  for (int step = 0; step < 2000; ++step) {
    Bound::Request* const any = bound.requests.empty() ? nullptr : &bound.requests[below(bound.requests.size())];
    switch (below(10)) {
      case 0:
        bound.begin(static_cast<unsigned>(below(count)), key);
        break;
      case 1:
      case 2:
      case 3:
        if (any != nullptr && any->runs()) bound.end(*any, key);
        break;
      case 4:
        if (any != nullptr && !any->answer && below(4) == 0) any->waiting.cancel();
        break;
      case 5:
        bound.cores.now += Duration(below(2'000'000));
        break;
      default:
        bound.cores.step(static_cast<unsigned>(below(count)));
    }
    ASSERT_LE(bound.running(), most);
  }
  for (Bound::Request& request : bound.requests) {
    if (!request.answer) request.waiting.cancel();
  }
  for (int i = 0; i < 100; ++i) {
    for (Bound::Request& request : bound.requests) {
      if (request.runs()) bound.end(request, key);
    }
    bound.cores.pass(5ms);
  }
  ASSERT_EQ(bound.running(), 0);
  const auto& owner = bound.parts[bound.shared->owner_of(key)];
  ASSERT_EQ(owner->waiting(key), 0u);
  ASSERT_EQ(owner->keys(), 0u);
  for (std::uint32_t i = 0; i < most; ++i) {
    ASSERT_EQ(bound.take(static_cast<unsigned>(below(count)), key), Answer::granted);
  }
}

TEST(Permits, NeverMoreThanMayAndNoneIsLost) {
  for (std::uint64_t seed = 0; seed < 50 && !testing::Test::HasFailure(); ++seed) interleave(seed);
}

}  // namespace
}  // namespace sluice::gateway::limits
