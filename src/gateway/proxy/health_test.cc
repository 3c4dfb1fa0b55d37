#include "gateway/proxy/health.h"

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

using State = Health::State;
using Trial = Health::Trial;

class HealthTest : public testing::Test {
 protected:
  void start(std::size_t count, Health::Options options) {
    health_.emplace_back(options);
    servers_.resize(count);
    std::vector<Health::Server*> all;
    for (auto& one : servers_) all.push_back(&one);
    health_.back().set_servers(all);
  }
  Health& health() { return health_.back(); }
  bool report(bool passed, std::uint32_t failed, std::size_t server = 0) {
    return checked(health().report(servers_[server], passed, failed, now_));
  }
  bool probed(bool passed, std::size_t server = 0) { return checked(health().probed(servers_[server], passed, now_)); }
  bool tried(Trial result, std::size_t server = 0) {
    return checked(health().tried(servers_[server], servers_[server].permit, result, now_));
  }
  // Advances the time, and calls advance() whenever it is due.
  void pass(Duration time) {
    const Instant end = now_ + time;
    while (health().next() <= end) {
      now_ = std::max(now_, health().next());
      for (auto& one : servers_) (void)health().advance(one, now_);
      health().validate();
    }
    now_ = end;
  }
  bool checked(bool changed) {
    health().validate();
    return changed;
  }
  [[nodiscard]] State state(std::size_t server = 0) const { return servers_[server].state; }

  std::deque<Health::Server> servers_;
  std::deque<Health> health_;
  Instant now_{1h};
};

// Every event in every state, and the resulting state.
TEST_F(HealthTest, EveryTransition) {
  enum Event {
    pass_1,
    fail_1,
    fail_3,
    probe_passes,
    probe_fails,
    trial_passes,
    trial_fails,
    trial_unused,
    time_1s,
    time_10s
  };
  static constexpr const char* names[] = {"pass_1",       "fail_1",      "fail_3",       "probe_passes", "probe_fails",
                                          "trial_passes", "trial_fails", "trial_unused", "time_1s",      "time_10s"};
  // The events that lead to state `from`; then the state that each event leads to.
  struct Row {
    State from;
    std::vector<Event> path;
    State to[10];
  };
  using enum State;
  const std::vector<Row> table = {
      {up, {}, {up, up, ejected, up, up, up, up, up, up, up}},
      {up, {fail_1, fail_1}, {up, ejected, ejected, up, up, up, up, up, up, up}},
      {up, {fail_1, fail_1, pass_1}, {up, up, ejected, up, up, up, up, up, up, up}},
      {up, {probe_fails}, {up, up, ejected, up, ejected, up, up, up, up, up}},
      {up, {probe_fails, probe_passes}, {up, up, ejected, up, up, up, up, up, up, up}},
      // The server leaves the state only after its time is over and its probes have passed.
      {ejected, {fail_3}, {ejected, ejected, ejected, ejected, ejected, ejected, ejected, ejected, ejected, ejected}},
      {ejected,
       {fail_3, time_10s, probe_passes},
       {ejected, ejected, ejected, probing, ejected, ejected, ejected, ejected, ejected, ejected}},
      {ejected,
       {fail_3, probe_passes, probe_passes},
       {ejected, ejected, ejected, ejected, ejected, ejected, ejected, ejected, ejected, probing}},
      {ejected,
       {fail_3, probe_passes, probe_passes, probe_fails, time_10s},
       {ejected, ejected, ejected, ejected, ejected, ejected, ejected, ejected, ejected, ejected}},
      // Reports have no effect, because they are about requests sent before the ejection.
      {probing,
       {fail_3, probe_passes, probe_passes, time_10s},
       {probing, probing, probing, probing, probing, slow_start, ejected, probing, probing, probing}},
      {probing,
       {fail_3, probe_passes, probe_passes, time_10s, probe_fails},
       {probing, probing, probing, probing, ejected, slow_start, ejected, probing, probing, probing}},
      {slow_start,
       {fail_3, probe_passes, probe_passes, time_10s, trial_passes},
       {slow_start, slow_start, ejected, slow_start, slow_start, slow_start, slow_start, slow_start, slow_start, up}},
  };
  for (const Row& row : table) {
    for (int event = -1; event < 10; ++event) {
      servers_.clear();
      health_.clear();
      start(2, {.after = 3, .time = 10s, .slow_start = 9s, .has_probes = true, .rise = 2, .fall = 2});
      const auto happen = [&](int what) {
        switch (static_cast<Event>(what)) {
          case pass_1:
            return (void)report(true, 0);
          case fail_1:
            return (void)report(false, 1);
          case fail_3:
            return (void)report(false, 3);
          case probe_passes:
            return (void)probed(true);
          case probe_fails:
            return (void)probed(false);
          case trial_passes:
            return (void)tried(Trial::passed);
          case trial_fails:
            return (void)tried(Trial::failed);
          case trial_unused:
            return (void)tried(Trial::unused);
          case time_1s:
            return pass(1s);
          case time_10s:
            return pass(10s);
        }
      };
      std::string path;
      for (const Event one : row.path) {
        happen(one);
        path += std::string(names[one]) + " ";
      }
      if (event < 0) {
        EXPECT_EQ(state(), row.from) << path;
        continue;
      }
      happen(event);
      EXPECT_EQ(state(), row.to[event]) << path << "and then " << names[event];
      EXPECT_EQ(state(1), up);
    }
  }
}

TEST_F(HealthTest, BacksOffAndForgets) {
  start(2, {.after = 1, .time = 10s, .longest = 70s, .slow_start = 0s});
  for (const Duration lasts : {10s, 20s, 40s, 70s, 70s}) {
    EXPECT_TRUE(state() == State::probing ? tried(Trial::failed) : report(false, 1));
    EXPECT_EQ(state(), State::ejected);
    pass(lasts - 1ns);
    EXPECT_EQ(state(), State::ejected) << lasts.count();
    pass(1ns);
    EXPECT_EQ(state(), State::probing) << lasts.count();
  }
  EXPECT_TRUE(tried(Trial::passed));
  EXPECT_EQ(state(), State::up) << "no slow start";
  pass(69s);
  EXPECT_TRUE(report(false, 1));
  EXPECT_EQ(servers_[0].lasts, 70s) << "it has not been well for long enough";
  pass(70s);
  EXPECT_TRUE(tried(Trial::passed));
  pass(70s);
  EXPECT_TRUE(report(false, 1));
  EXPECT_EQ(servers_[0].lasts, 10s);
  EXPECT_EQ(servers_[0].ejections, 7u);
}

TEST_F(HealthTest, SlowStartGoesByTenths) {
  start(2, {.after = 2, .time = 1s, .slow_start = 10s});
  report(false, 2);
  EXPECT_EQ(servers_[0].share, 0u);
  pass(1s);
  EXPECT_EQ(servers_[0].share, 0u) << "but for one request";
  tried(Trial::passed);
  for (std::uint32_t share = 10; share <= 100; share += 10) {
    EXPECT_EQ(servers_[0].share, share);
    EXPECT_EQ(state(), share == 100 ? State::up : State::slow_start);
    pass(1s);
  }
}

TEST_F(HealthTest, EjectsNoMoreThanItMay) {
  const auto ejected = [&](std::size_t count, unsigned percent) {
    servers_.clear();
    health_.clear();
    start(count, {.after = 1, .percent = percent});
    std::size_t out = 0;
    for (std::size_t i = 0; i < count; ++i) out += report(false, 1, i) ? 1 : 0;
    return out;
  };
  EXPECT_EQ(ejected(1, 100), 0u) << "there is no other";
  EXPECT_EQ(ejected(2, 50), 1u);
  EXPECT_EQ(ejected(2, 1), 1u) << "at least one";
  EXPECT_EQ(ejected(2, 100), 2u);
  EXPECT_EQ(ejected(3, 50), 1u);
  EXPECT_EQ(ejected(10, 30), 3u);
  EXPECT_EQ(ejected(10, 0), 0u);
  // If `percent` does not allow another ejection, the server is ejected at the first failure after there is room again.
  start(2, {.after = 2, .time = 1s, .percent = 50, .slow_start = 0s});
  report(false, 2, 0);
  EXPECT_FALSE(report(false, 2, 1));
  pass(1s);
  EXPECT_FALSE(report(false, 1, 1)) << "the first one is still out";
  tried(Trial::passed, 0);
  EXPECT_TRUE(report(false, 1, 1));
  EXPECT_EQ(state(1), State::ejected);
}

TEST_F(HealthTest, GivesOnePermitAtATime) {
  start(2, {.after = 1, .time = 1s, .slow_start = 0s, .cores = 3});
  report(false, 1);
  pass(1s);
  std::vector<unsigned> cores;
  std::uint64_t last = 0;
  for (int i = 0; i < 4; ++i) {
    EXPECT_GT(servers_[0].permit, last);
    last = servers_[0].permit;
    cores.push_back(servers_[0].permit_core);
    EXPECT_FALSE(checked(health().tried(servers_[0], last - 1, Trial::passed, now_))) << "an earlier permit's";
    EXPECT_TRUE(tried(Trial::unused));
  }
  EXPECT_EQ(cores, (std::vector<unsigned>{0, 1, 2, 0}));
  EXPECT_TRUE(tried(Trial::passed));
}

TEST_F(HealthTest, NeverByRequestsWhereTheyDoNotCount) {
  start(2, {.after = 0});
  EXPECT_FALSE(report(false, 1'000'000));
  EXPECT_FALSE(report(false, 0xffffffffU));
}

TEST_F(HealthTest, ProbesRemoveAllServers) {
  for (const std::size_t count : {1u, 3u}) {
    servers_.clear();
    health_.clear();
    start(count, {.after = 1, .time = 10s, .percent = 0, .slow_start = 0s, .has_probes = true, .rise = 2, .fall = 2});
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_FALSE(probed(false, i));
      EXPECT_TRUE(probed(false, i));
      EXPECT_EQ(state(i), State::ejected);
      EXPECT_TRUE(servers_[i].is_removed);
      EXPECT_FALSE(probed(false, i)) << "nothing new";
    }
    // It is not removed any more as soon as its probes pass, although its ejection goes on.
    EXPECT_FALSE(probed(true));
    EXPECT_TRUE(servers_[0].is_removed);
    EXPECT_TRUE(probed(true));
    EXPECT_FALSE(servers_[0].is_removed);
    EXPECT_EQ(state(), State::ejected);
    EXPECT_FALSE(probed(false));
    EXPECT_TRUE(probed(false)) << "removed again";
    EXPECT_EQ(servers_[0].ejections, 1u);
    pass(10s);
    EXPECT_FALSE(probed(true));
    EXPECT_TRUE(probed(true));
    EXPECT_EQ(state(), State::probing);
    EXPECT_TRUE(tried(Trial::passed));
    EXPECT_EQ(state(), State::up);
    EXPECT_FALSE(report(false, 1)) << "failed requests may not eject";
  }
}

TEST_F(HealthTest, ProbesRemoveAServerThatRequestsHaveEjected) {
  start(2, {.after = 1, .has_probes = true, .fall = 2});
  EXPECT_TRUE(report(false, 1));
  EXPECT_FALSE(servers_[0].is_removed);
  EXPECT_FALSE(probed(false));
  EXPECT_TRUE(probed(false));
  EXPECT_TRUE(servers_[0].is_removed);
}

// After any sequence of events, validate() succeeds, and reports eject no more servers than allowed.
TEST_F(HealthTest, KeepsItsPromises) {
  std::mt19937_64 random(5);
  for (int run = 0; run < 200; ++run) {
    servers_.clear();
    health_.clear();
    const std::size_t count = 1 + random() % 6;
    const auto percent = static_cast<unsigned>(random() % 101);
    const bool has_probes = random() % 2 == 0;
    start(count, {.after = static_cast<std::uint32_t>(random() % 4),
                  .time = 3s,
                  .longest = 40s,
                  .percent = percent,
                  .slow_start = random() % 2 == 0 ? 0s : 5s,
                  .has_probes = has_probes,
                  .cores = 4});
    for (int i = 0; i < 300; ++i) {
      const std::size_t server = random() % count;
      const auto out = static_cast<std::size_t>(std::ranges::count(servers_, 0u, &Health::Server::share));
      const std::size_t most = count == 1 || percent == 0 ? 0 : std::max<std::size_t>(1, count * percent / 100);
      bool is_ejected = false;
      switch (random() % 4) {
        case 0:
          is_ejected = report(random() % 2 == 0, static_cast<std::uint32_t>(random() % 3), server);
          break;
        case 1:
          if (has_probes) probed(random() % 2 == 0, server);
          break;
        case 2:
          tried(static_cast<Trial>(random() % 3), server);
          break;
        default:
          pass(Duration(random() % 2'000'000'000));
      }
      ASSERT_TRUE(!is_ejected || out < most);
    }
  }
}

}  // namespace
}  // namespace sluice::gateway
