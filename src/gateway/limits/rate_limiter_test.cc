#include "gateway/limits/rate_limiter.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "gateway/limits/cores_for_tests.h"

namespace sluice::gateway::limits {
namespace {

using for_tests::Cores;
using Answer = RateLimiter::Answer;

constexpr Rate ten_per_s{.interval_ns = 100'000'000, .burst = 10};

class Limit {
 public:
  explicit Limit(unsigned cores, const Rate& rate, std::uint32_t keys = 1000, std::size_t ring_capacity = 256)
      : cores(cores, ring_capacity), shared(std::make_shared<Shared>(cores)), tasks(cores) {
    for (unsigned i = 0; i < cores; ++i) {
      parts.push_back(RateLimiter::of(shared, this->cores[i].reactor(), this->cores[i].mesh(), rate, keys));
      EXPECT_EQ(parts[i], RateLimiter::of(shared, this->cores[i].reactor(), this->cores[i].mesh(), rate, keys));
    }
  }
  ~Limit() {
    for (const auto& part : parts) part->validate();
  }

  // A key that this core owns.
  [[nodiscard]] Key key_of(unsigned owner, std::uint64_t number = 1) const {
    for (;; ++number) {
      const Key key{.low = number * 0x9e3779b97f4a7c15 | 1, .high = number * 0xc2b2ae3d27d4eb4f};
      if (shared->owner_of(key) == owner) return key;
    }
  }
  struct Taking {
    std::optional<RateLimiter::Verdict> verdict;
    Instant begin{};
    Instant end{};
  };
  void begin(unsigned core, const Key& key, Taking& taking) {
    taking.begin = cores.now;
    auto async = parts[core]->take(key);
    if (async.ready()) {
      taking.verdict = async.get();
      taking.end = cores.now;
      return;
    }
    tasks[core].spawn([](Limit& self, core::Task<RateLimiter::Verdict> task, Taking& into) -> core::Task<void> {
      into.verdict = co_await std::move(task);
      into.end = self.cores.now;
    }(*this, async.take_task(), taking));
  }
  RateLimiter::Verdict take(unsigned core, const Key& key) {
    Taking taking;
    begin(core, key, taking);
    if (!taking.verdict) {
      ++waits;
      cores.settle();
    }
    EXPECT_TRUE(taking.verdict);
    return *taking.verdict;
  }
  bool allows(unsigned core, const Key& key) { return take(core, key).answer == Answer::allowed; }

  Cores cores;
  std::shared_ptr<Shared> shared;
  std::vector<std::shared_ptr<RateLimiter>> parts;
  std::vector<core::TaskGroup> tasks;
  int waits = 0;
};

TEST(RateLimiter, ABurstThenTheRate) {
  Limit limit(1, ten_per_s);
  const Key key = limit.key_of(0);
  for (std::uint32_t i = 0; i < 10; ++i) {
    const auto verdict = limit.take(0, key);
    EXPECT_EQ(verdict.answer, Answer::allowed);
    EXPECT_EQ(verdict.left, 9 - i);
  }
  const auto refused = limit.take(0, key);
  EXPECT_EQ(refused.answer, Answer::refused);
  EXPECT_EQ(refused.wait_ns, 100'000'000);
  EXPECT_TRUE(limit.allows(0, limit.key_of(0, 1000)));
  limit.cores.pass(99ms);
  EXPECT_FALSE(limit.allows(0, key));
  limit.cores.pass(1ms);
  EXPECT_TRUE(limit.allows(0, key));
  EXPECT_FALSE(limit.allows(0, key));
  limit.cores.pass(10s);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limit.allows(0, key));
  EXPECT_FALSE(limit.allows(0, key));
}

TEST(RateLimiter, TheWholeBurstIsThereWhicheverCoresAsk) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto burst = static_cast<std::int64_t>(1 + random() % 100);
    Limit limit(1 + static_cast<unsigned>(random() % 4), {.interval_ns = 100'000'000'000, .burst = burst});
    const Key key = limit.key_of(static_cast<unsigned>(random() % limit.cores.size()));
    std::int64_t allowed = 0;
    for (int i = 0; i < 150; ++i) {
      if (limit.allows(static_cast<unsigned>(random() % limit.cores.size()), key)) ++allowed;
    }
    EXPECT_EQ(allowed, burst) << seed;
  }
}

TEST(RateLimiter, AKeyOnACoreThatDoesNotOwnItSeldomWaits) {
  Limit limit(2, {.interval_ns = 1'000'000, .burst = 200});
  const Key key = limit.key_of(1);
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(limit.allows(0, key)) << i;
    limit.cores.now += 1ms;
    if (i % 10 == 0) limit.cores.settle();
  }
  EXPECT_LT(limit.waits, 10'000 / 25);
}

TEST(RateLimiter, OneThatIsRefusedAsksOnlyWhenThereMayBeAToken) {
  Limit limit(2, ten_per_s);
  const Key key = limit.key_of(1);
  int allowed = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (limit.allows(0, key)) ++allowed;
    limit.cores.now += 100us;
    if (i % 10 == 0) limit.cores.settle();
  }
  EXPECT_GE(allowed, 19);
  EXPECT_LE(allowed, 20);
  EXPECT_LT(limit.waits, 50);
}

TEST(RateLimiter, ALoanThatIsNotUsedGoesBack) {
  Limit limit(2, {.interval_ns = 3600'000'000'000, .burst = 1000});
  const Key key = limit.key_of(1);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(limit.allows(0, key));
  limit.cores.pass(RateLimiter::loan_time + 10ms);
  EXPECT_EQ(limit.take(1, key).left, 979u);
}

TEST(RateLimiter, WhatIsLentCountsWhileTheAccountFills) {
  Limit limit(2, {.interval_ns = 100'000, .burst = 100});
  const Key key = limit.key_of(1);
  for (int i = 0; i < 24; ++i) EXPECT_TRUE(limit.allows(0, key));
  // Core 0 holds a loan and makes no turn, for long enough to fill the account several times.
  limit.cores.now += 90ms;
  int allowed = 0;
  while (limit.parts[1]->take(key).ready() && allowed <= 100) ++allowed;  // the next one would recall the loan
  const int before = allowed;
  while (limit.parts[0]->take(key).ready() && allowed <= 100) ++allowed;
  EXPECT_GT(allowed, before);  // otherwise nothing was lent
  EXPECT_LE(allowed, 100);
  EXPECT_GE(allowed, 100 - static_cast<int>(RateLimiter::longest_loan));  // used tokens are not reported yet
}

TEST(RateLimiter, ARequestThatGoesAwayWhileItAsksLosesOneTokenAtMost) {
  Limit limit(2, {.interval_ns = 3600'000'000'000, .burst = 1000});
  const Key key = limit.key_of(1);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(limit.allows(0, key));
  for (int i = 0; i < 50; ++i) {
    Limit::Taking taking;
    limit.begin(0, key, taking);
    if (i % 2 == 0) limit.cores.step(1);
    limit.tasks[0].cancel();
  }
  limit.cores.pass(RateLimiter::loan_time + 10ms);
  EXPECT_GE(limit.take(1, key).left, 929u);
}

TEST(RateLimiter, AFullTableForgetsTheKeyThatIsNearestToItsWholeBurst) {
  Limit limit(1, ten_per_s, 100);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(limit.allows(0, limit.key_of(0, i * 10 + 1)));
  for (std::uint64_t i = 1; i < 100; ++i) EXPECT_TRUE(limit.allows(0, limit.key_of(0, i * 10 + 1)));  // lack two tokens
  EXPECT_EQ(limit.parts[0]->evicted(), 0u);
  EXPECT_TRUE(limit.allows(0, limit.key_of(0, 5000)));
  EXPECT_EQ(limit.parts[0]->evicted(), 1u);
  EXPECT_EQ(limit.parts[0]->keys(), 100u);
  for (std::uint64_t i = 1; i < 100; ++i) EXPECT_EQ(limit.take(0, limit.key_of(0, i * 10 + 1)).left, 7u);
  limit.cores.pass(100ms);
  EXPECT_TRUE(limit.allows(0, limit.key_of(0, 6000)));
  EXPECT_EQ(limit.parts[0]->evicted(), 1u) << "the account of key 5000 was full again";
}

TEST(RateLimiter, ANewRateKeepsWhatHasBeenUsed) {
  Limit limit(1, ten_per_s);
  const Key key = limit.key_of(0);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(limit.allows(0, key));
  limit.parts[0]->serve({.interval_ns = 1'000'000'000, .burst = 20}, nullptr);
  EXPECT_EQ(limit.take(0, key).left, 15u);
  limit.parts[0]->serve({.interval_ns = 1'000'000'000, .burst = 3}, nullptr);
  EXPECT_FALSE(limit.allows(0, key));
  limit.cores.pass(1s);
  EXPECT_TRUE(limit.allows(0, key));
  EXPECT_FALSE(limit.allows(0, key));
}

TEST(RateLimiter, AnOwnerThatIsSilentIsNotWaitedForForLong) {
  Limit limit(2, ten_per_s);
  Limit::Taking taking;
  limit.begin(0, limit.key_of(1), taking);
  limit.cores.now += RateLimiter::patience + 2ms;
  limit.cores.step(0);
  limit.cores.step(0);
  ASSERT_TRUE(taking.verdict);
  EXPECT_EQ(taking.verdict->answer, Answer::late);
}

TEST(RateLimiter, APartThatHasEndedSaysSo) {
  Limit limit(2, ten_per_s);
  const Key key = limit.key_of(1);
  limit.parts.pop_back();
  Limit::Taking taking;
  limit.begin(0, key, taking);
  limit.cores.settle();
  ASSERT_TRUE(taking.verdict);
  EXPECT_EQ(taking.verdict->answer, Answer::alone);
}

// With any interleaving of requests, turns and time, the requests allowed between two moments are at most the burst
// plus the tokens of that time. No tokens are lost: after a pause the whole burst is available.
void interleave(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  const auto cores = static_cast<unsigned>(1 + below(4));
  const Rate rate{.interval_ns = static_cast<std::int64_t>(1 + below(20)) * 1'000'000,
                  .burst = static_cast<std::int64_t>(1 + below(below(2) == 0 ? 5 : 300))};
  Limit limit(cores, rate, 1000, below(2) == 0 ? 256 : 2);
  const Key key = limit.key_of(static_cast<unsigned>(below(cores)));
  const unsigned favourite = static_cast<unsigned>(below(cores));
  std::deque<Limit::Taking> takings;
  for (int step = 0; step < 1500; ++step) {
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        limit.begin(below(3) == 0 ? static_cast<unsigned>(below(cores)) : favourite, key, takings.emplace_back());
        break;
      case 3:
        limit.cores.now += Duration(below(below(10) == 0 ? 200'000'000 : 3'000'000));
        break;
      case 4:
        if (below(20) == 0) limit.tasks[below(cores)].cancel();
        break;
      default:
        limit.cores.step(static_cast<unsigned>(below(cores)));
    }
  }
  limit.cores.settle();

  std::vector<std::pair<Instant, Instant>> allowed;
  for (const auto& taking : takings) {
    if (taking.verdict && taking.verdict->answer == Answer::allowed) allowed.emplace_back(taking.begin, taking.end);
  }
  for (std::size_t i = 0; i < allowed.size(); ++i) {
    std::vector<Instant> ends;
    for (std::size_t k = i; k < allowed.size(); ++k) ends.push_back(allowed[k].second);
    std::ranges::sort(ends);
    for (std::size_t n = 0; n < ends.size(); ++n) {
      const auto time = (ends[n] - allowed[i].first).count();
      ASSERT_LE(static_cast<std::int64_t>(n + 1), rate.burst + time / rate.interval_ns) << i;
    }
  }

  for (int i = 0; i < 50; ++i) limit.cores.settle();  // with small rings this takes many turns
  for (int i = 0; i < 5; ++i) limit.cores.pass(RateLimiter::loan_time + 2ms);
  limit.cores.pass(Duration(rate.burst * rate.interval_ns));
  std::int64_t burst = 0;
  for (std::int64_t i = 0; i < rate.burst + 5; ++i) {
    if (limit.allows(static_cast<unsigned>(below(cores)), key)) ++burst;
  }
  ASSERT_EQ(burst, rate.burst);
}

TEST(RateLimiter, NeverAllowsMoreThanItSaysAndLosesNothing) {
  for (std::uint64_t seed = 0; seed < 40 && !testing::Test::HasFailure(); ++seed) interleave(seed);
}

}  // namespace
}  // namespace sluice::gateway::limits
