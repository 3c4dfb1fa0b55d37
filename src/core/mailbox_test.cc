#include "core/mailbox.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::core {
namespace {

struct Note : Letter {
  Note(std::vector<int>& log, int value)
      : Letter([](Letter& letter) noexcept {
          auto& self = static_cast<Note&>(letter);
          self.log.push_back(self.value);
        }),
        log(log),
        value(value) {}
  std::vector<int>& log;
  int value;
};

TEST(Mailbox, delivers_in_the_order_of_posting) {
  const auto reactor = make_epoll_reactor();
  Mailbox mailbox(*reactor);
  std::vector<int> log;
  mailbox.deliver();
  Note a(log, 1);
  Note b(log, 2);
  Note c(log, 3);
  EXPECT_TRUE(mailbox.post(a));
  EXPECT_TRUE(mailbox.post(b));
  EXPECT_TRUE(mailbox.post(c));
  EXPECT_TRUE(log.empty());
  mailbox.deliver();
  EXPECT_EQ(log, (std::vector{1, 2, 3}));
  mailbox.deliver();
  EXPECT_EQ(log.size(), 3U);
  EXPECT_TRUE(mailbox.post(b));  // a delivered letter may be posted again
  mailbox.deliver();
  EXPECT_EQ(log.back(), 2);
}

TEST(Mailbox, closing_delivers_what_was_posted_and_refuses_the_rest) {
  const auto reactor = make_epoll_reactor();
  Mailbox mailbox(*reactor);
  std::vector<int> log;
  Note before(log, 1);
  Note after(log, 2);
  EXPECT_TRUE(mailbox.post(before));
  EXPECT_FALSE(mailbox.closed());
  mailbox.close();
  EXPECT_TRUE(mailbox.closed());
  EXPECT_EQ(log, std::vector{1});
  EXPECT_FALSE(mailbox.post(after));
  mailbox.deliver();
  mailbox.close();
  EXPECT_EQ(log, std::vector{1});
}

TEST(Mailbox, a_post_wakes_a_reactor_that_sleeps) {
  const auto reactor = make_epoll_reactor();
  Mailbox mailbox(*reactor);
  std::vector<int> log;
  Note note(log, 7);
  std::thread foreign([&] {
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(mailbox.post(note));
  });
  while (log.empty()) {
    reactor->turn(never);
    mailbox.deliver();
  }
  foreign.join();
  EXPECT_EQ(log, std::vector{7});
}

// Every letter is either delivered, once and in its thread's order, or refused.
TEST(Mailbox, many_threads_against_a_closing_core) {
  constexpr int threads = 4;
  constexpr int per_thread = 20'000;
  struct Counted : Letter {
    Counted() : Letter([](Letter& letter) noexcept { static_cast<Counted&>(letter).arrive(); }) {}
    void arrive() {
      ++deliveries;
      if (*last >= number) *disordered = true;
      *last = number;
    }
    int number = 0;
    int deliveries = 0;
    int* last = nullptr;
    bool* disordered = nullptr;
  };
  const auto reactor = make_epoll_reactor();
  Mailbox mailbox(*reactor);
  std::vector<std::vector<Counted>> letters;
  for (int t = 0; t < threads; ++t) letters.emplace_back(per_thread);
  int last[threads] = {};
  bool disordered = false;
  std::atomic<int> accepted = 0;
  std::vector<std::thread> posters;
  for (int t = 0; t < threads; ++t) {
    posters.emplace_back([&, t] {
      int number = 0;
      for (Counted& letter : letters[static_cast<std::size_t>(t)]) {
        letter.number = ++number;
        letter.last = &last[t];
        letter.disordered = &disordered;
        if (mailbox.post(letter)) ++accepted;
      }
    });
  }
  while (accepted.load() < threads * per_thread / 2) {
    reactor->turn(never);
    mailbox.deliver();
  }
  mailbox.close();
  for (std::thread& poster : posters) poster.join();
  int delivered = 0;
  for (const auto& of_thread : letters) {
    for (const Counted& letter : of_thread) {
      EXPECT_LE(letter.deliveries, 1);
      delivered += letter.deliveries;
    }
  }
  EXPECT_EQ(delivered, accepted.load());
  EXPECT_FALSE(disordered);
}

}  // namespace
}  // namespace sluice::core
