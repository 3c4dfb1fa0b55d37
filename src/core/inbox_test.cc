#include "core/inbox.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/core.h"

namespace sluice::core {
namespace {

struct Log {
  std::vector<int>* values;
  void operator()(int value) const { values->push_back(value); }
};

// A core that the test steps by hand.
struct Consumer {
  Mesh mesh{1};
  Core core{mesh, 0, make_epoll_reactor()};
  std::vector<int> values;

  void step() { core.step(core.reactor().now()); }
  void end() {
    core.stop();
    core.run();
  }
};

TEST(Inbox, takes_values_in_order_and_refuses_them_when_it_is_full) {
  Consumer consumer;
  Inbox<int, Log> inbox(consumer.core.mailbox(), 4, Log{&consumer.values});
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(inbox.try_push(int{i}));
  EXPECT_FALSE(inbox.try_push(4));
  EXPECT_FALSE(inbox.closed());
  EXPECT_TRUE(consumer.values.empty());
  consumer.step();
  EXPECT_EQ(consumer.values, (std::vector{0, 1, 2, 3}));
  for (int i = 4; i < 7; ++i) EXPECT_TRUE(inbox.try_push(int{i}));
  consumer.step();
  EXPECT_EQ(consumer.values, (std::vector{0, 1, 2, 3, 4, 5, 6}));
  consumer.end();
}

TEST(Inbox, a_refused_value_is_unchanged) {
  Consumer consumer;
  const auto take = [&](std::unique_ptr<int> value) { consumer.values.push_back(*value); };
  Inbox<std::unique_ptr<int>, decltype(take)> inbox(consumer.core.mailbox(), 2, take);
  EXPECT_TRUE(inbox.try_push(std::make_unique<int>(1)));
  EXPECT_TRUE(inbox.try_push(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(inbox.try_push(std::move(third)));
  ASSERT_TRUE(third);
  consumer.step();
  EXPECT_TRUE(inbox.try_push(std::move(third)));
  EXPECT_FALSE(third);
  consumer.step();
  EXPECT_EQ(consumer.values, (std::vector{1, 2, 3}));
  consumer.end();
}

TEST(Inbox, a_turn_takes_a_limited_number) {
  Consumer consumer;
  Inbox<int, Log> inbox(consumer.core.mailbox(), 16, Log{&consumer.values}, 4);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(inbox.try_push(int{i}));
  std::vector<std::size_t> taken;
  while (consumer.values.size() < 10) {
    consumer.step();
    taken.push_back(consumer.values.size());
    ASSERT_LE(taken.size(), 10u);
  }
  EXPECT_EQ(taken.front(), 8u) << "when the letter comes, and at the end of the same step";
  EXPECT_TRUE(inbox.try_push(10));
  consumer.step();
  EXPECT_EQ(consumer.values.size(), 11u);
  consumer.end();
}

TEST(Inbox, close_destroys_what_is_left_and_refuses_the_rest) {
  Consumer consumer;
  int taken = 0;
  auto counted = std::make_shared<int>(0);
  const auto take = [&](const std::shared_ptr<int>&) { ++taken; };
  Inbox<std::shared_ptr<int>, decltype(take)> inbox(consumer.core.mailbox(), 4, take);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(inbox.try_push(std::shared_ptr<int>(counted)));
  EXPECT_EQ(counted.use_count(), 4);
  inbox.close();
  EXPECT_TRUE(inbox.closed());
  EXPECT_EQ(counted.use_count(), 1);
  EXPECT_FALSE(inbox.try_push(std::shared_ptr<int>(counted)));
  consumer.step();
  EXPECT_EQ(taken, 0);
  consumer.end();
}

TEST(Inbox, the_consumer_may_close_it) {
  Consumer consumer;
  struct Take {
    Consumer& consumer;
    Inbox<int, Take>*& inbox;
    void operator()(int value) const {
      consumer.values.push_back(value);
      if (value == 1) inbox->close();
    }
  };
  Inbox<int, Take>* self = nullptr;
  Inbox<int, Take> inbox(consumer.core.mailbox(), 4, Take{consumer, self});
  self = &inbox;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(inbox.try_push(int{i}));
  consumer.step();
  EXPECT_EQ(consumer.values, (std::vector{0, 1}));
  consumer.end();
}

TEST(Inbox, values_that_come_after_the_core_has_ended_are_destroyed) {
  Consumer consumer;
  auto counted = std::make_shared<int>(0);
  {
    const auto take = [](const std::shared_ptr<int>&) {};
    Inbox<std::shared_ptr<int>, decltype(take)> inbox(consumer.core.mailbox(), 4, take);
    consumer.end();
    EXPECT_TRUE(inbox.try_push(std::shared_ptr<int>(counted)));
  }
  EXPECT_EQ(counted.use_count(), 1);
}

// Each value is taken once, in the order of its thread, by a consumer that is slower than the producers.
TEST(Inbox, several_producers_and_a_slow_consumer) {
  constexpr unsigned producers = 4;
  constexpr std::uint32_t per_producer = 5'000;
  struct Value {
    unsigned from;
    std::uint32_t number;
  };
  Consumer consumer;
  std::uint32_t next[producers] = {};
  std::uint32_t taken = 0;
  std::uint32_t disordered = 0;
  std::atomic<std::uint32_t> refused = 0;
  const auto take = [&](Value value) {
    ++taken;
    if (value.number != next[value.from]++) ++disordered;
    if (taken % 8 == 0) std::this_thread::yield();
    if (taken == producers * per_producer) consumer.core.stop();
  };
  Inbox<Value, decltype(take)> inbox(consumer.core.mailbox(), 16, take, 8);
  std::vector<std::thread> threads;
  for (unsigned from = 0; from < producers; ++from) {
    threads.emplace_back([&, from] {
      for (std::uint32_t number = 0; number < per_producer;) {
        if (inbox.try_push({from, number})) {
          ++number;
        } else {
          ++refused;
          std::this_thread::yield();
        }
      }
    });
  }
  consumer.core.run();  // sleeps when it can, so a lost wake-up would stop it
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(disordered, 0u);
  EXPECT_GT(refused.load(), 0u);
}

// Each accepted value is taken or destroyed, and nothing is accepted after close().
TEST(Inbox, close_while_threads_push) {
  for (int round = 0; round < 50; ++round) {
    Consumer consumer;
    auto counted = std::make_shared<int>(0);
    std::atomic<int> accepted = 0;
    int taken = 0;
    const auto take = [&](const std::shared_ptr<int>&) { ++taken; };
    Inbox<std::shared_ptr<int>, decltype(take)> inbox(consumer.core.mailbox(), 64, take, 8);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (!inbox.closed()) {
          if (inbox.try_push(std::shared_ptr<int>(counted))) {
            ++accepted;
          } else {
            std::this_thread::yield();
          }
        }
      });
    }
    while (taken < 100) consumer.core.step();  // more pushes follow, and wake it
    inbox.close();
    const int before = taken;
    for (std::thread& thread : threads) thread.join();
    consumer.step();
    EXPECT_EQ(taken, before);
    EXPECT_GE(accepted.load(), taken);
    EXPECT_EQ(counted.use_count(), 1);
    consumer.end();
  }
}

// The producer waits until its value was taken, so the core goes to sleep before each push.
TEST(Inbox, no_wake_up_is_lost) {
  constexpr int pushes = 5'000;
  Cores cores({.count = 1, .pin = false});
  std::atomic<int> taken = 0;
  const auto take = [&](int burst) {
    taken += burst;
    taken.notify_one();
  };
  Inbox<int, decltype(take)>* inbox = nullptr;
  cores.start([&](Core& core) {
    Inbox<int, decltype(take)> own(core.mailbox(), 4, take, 2);
    inbox = &own;
    core.run();
  });
  for (int pushed = 0; pushed < pushes;) {
    const int burst = 1 + pushed % 4;
    for (int i = 0; i < burst; ++i) EXPECT_TRUE(inbox->try_push(1));
    pushed += burst;
    for (int now = taken.load(); now < pushed; now = taken.load()) taken.wait(now);
  }
  cores.stop();
  cores.join();
  EXPECT_GE(taken.load(), pushes);
}

}  // namespace
}  // namespace sluice::core
