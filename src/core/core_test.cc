#include "core/core.h"

#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "core/back_ends_for_tests.h"
#include "core/usable_cores.h"

namespace sluice::core {
namespace {

TEST(Cores, each_has_its_thread) {
  Cores cores({.count = 3});
  EXPECT_EQ(cores.size(), 3U);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::set<unsigned> indices;
  cores.start([&](Core& core) {
    {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      indices.insert(core.index());
    }
    core.run();
    EXPECT_TRUE(core.stopping());
    EXPECT_TRUE(core.mailbox().closed());
  });
  EXPECT_EQ(threads.size(), 3U);
  EXPECT_EQ(indices, (std::set<unsigned>{0, 1, 2}));
  cores.stop();
  cores.join();
}

TEST(Cores, are_pinned_to_the_allowed_cpus_in_order_when_there_are_enough) {
  const std::vector<unsigned> allowed = allowed_cpus();
  const auto count = static_cast<unsigned>(allowed.size());
  for (const unsigned wanted : {count, count + 1}) {
    std::vector<std::vector<unsigned>> cpus(wanted);
    Cores cores({.count = wanted});
    cores.start([&](Core& core) {
      cpus[core.index()] = allowed_cpus();
      core.run();
    });
    for (unsigned index = 0; index < wanted; ++index) {
      EXPECT_EQ(cpus[index], wanted == count ? std::vector{allowed[index]} : allowed);
    }
  }
}

TEST(Cores, an_exception_of_any_body_reaches_the_caller_and_stops_the_others) {
  Cores cores({.count = 3});
  std::atomic<int> ran = 0;
  std::atomic<int> taken_down = 0;
  const auto body = [&](Core& core) {
    if (core.index() == 1) throw std::runtime_error("no port");
    core.run();
    ran += core.stopping() ? 1 : 0;
    ++taken_down;
  };
  try {
    cores.start(body);
    FAIL() << "start() returned";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no port");
  }
  EXPECT_EQ(taken_down.load(), 2);
  EXPECT_EQ(ran.load(), 0);
}

TEST(Cores, a_body_may_return_without_running) {
  Cores cores({.count = 2});
  std::promise<Errc> refused;
  cores.start([&](Core& core) {
    if (core.index() == 1) return;
    const auto ask = [](Core& core, std::promise<Errc>& refused) -> Task<void> {
      const auto answer = co_await core.mesh().call(1, never, [] { return 1; });
      refused.set_value(answer ? Errc{} : answer.error().code);
    };
    core.tasks().spawn(ask(core, refused));
    core.run();
  });
  EXPECT_EQ(refused.get_future().get(), Errc::closed);
}

// The reactor decides how a core wakes up.
class CoresThatWake : public OnReactor {
 protected:
  static BackEnd back_end() { return GetParam().is_uring ? BackEnd::uring : BackEnd::epoll; }
};
INSTANTIATE_TEST_SUITE_P(BackEnds, CoresThatWake, testing::Values(on_epoll, on_uring), name_of);

TEST_P(CoresThatWake, foreign_threads_post_until_the_end) {
  struct Note : Letter {
    explicit Note(std::atomic<int>& count)
        : Letter([](Letter& letter) noexcept { ++static_cast<Note&>(letter).count; }), count(count) {}
    std::atomic<int>& count;
  };
  std::atomic<int> delivered = 0;
  std::atomic<int> accepted = 0;
  Cores cores({.count = 2, .back_end = back_end()});
  cores.start([](Core& core) { core.run(); });
  std::thread foreign([&] {
    for (unsigned i = 0;; ++i) {
      auto* note = new Note(delivered);
      note->deliver = [](Letter& letter) noexcept {
        auto* self = static_cast<Note*>(&letter);
        ++self->count;
        delete self;
      };
      if (!cores.core(i % 2).mailbox().post(*note)) {
        delete note;
        return;
      }
      ++accepted;
    }
  });
  while (delivered.load() < 1000) std::this_thread::yield();
  cores.stop();
  foreign.join();
  cores.join();
  EXPECT_EQ(delivered.load(), accepted.load());
}

// Cores post to and call each other through rings that are much too small, and are stopped in the middle of it. Every
// accepted message must run, and every call must return or be cancelled with its core.
TEST_P(CoresThatWake, mesh_stress_with_an_end_in_the_middle) {
  for (int round = 0; round < 6; ++round) {
    std::atomic<std::uint64_t> accepted = 0;
    std::atomic<std::uint64_t> ran = 0;
    std::atomic<std::uint64_t> answers = 0;
    std::atomic<std::uint64_t> wrong = 0;
    static constexpr unsigned count = 3;
    {
      Cores cores({.count = count, .ring_capacity = 4, .back_end = back_end()});
      cores.start([&](Core& core) {
        std::uint64_t last_of[count] = {};
        static thread_local std::uint64_t* last = nullptr;
        last = last_of;
        const auto post = [](Core& core, std::atomic<std::uint64_t>& accepted, std::atomic<std::uint64_t>& ran,
                             std::atomic<std::uint64_t>& wrong) -> Task<void> {
          for (std::uint64_t number = 1;; ++number) {
            for (unsigned to = 0; to < count; ++to) {
              const auto taken = co_await core.mesh().post(to, never, [&ran, &wrong, number, from = core.index()] {
                if (last[from] + 1 != number) ++wrong;
                last[from] = number;
                ++ran;
              });
              if (!taken) co_return;
              ++accepted;
            }
          }
        };
        const auto ask = [](Core& core, std::atomic<std::uint64_t>& answers,
                            std::atomic<std::uint64_t>& wrong) -> Task<void> {
          for (std::uint64_t number = 0;; ++number) {
            const unsigned to = (core.index() + 1) % count;
            const auto answer = co_await core.mesh().call(to, never, [number](MeshPort& there) -> Task<std::uint64_t> {
              const unsigned back = (there.core() + 1) % count;
              auto inner = co_await there.call(back, never, [number] { return number * 2; });
              co_return inner ? *inner : number * 2;
            });
            if (!answer) {
              if (answer.error().code != Errc::closed) ++wrong;
              co_return;
            }
            if (*answer != number * 2) ++wrong;
            ++answers;
          }
        };
        core.tasks().spawn(post(core, accepted, ran, wrong));
        for (int i = 0; i < 10; ++i) core.tasks().spawn(ask(core, answers, wrong));
        core.run();
      });
      std::this_thread::sleep_for(100ms);
      if (round % 2 == 0) {
        cores.stop();
      } else {
        cores.core(1).stop();  // the others continue without it
        std::this_thread::sleep_for(20ms);
      }
    }
    EXPECT_EQ(accepted.load(), ran.load());
    EXPECT_EQ(wrong.load(), 0U);
    EXPECT_GT(answers.load(), 0U);
  }
}

// Each message makes the other core post the next one, and both cores sleep meanwhile.
TEST_P(CoresThatWake, no_wake_up_for_a_post_is_lost) {
  struct Ball {
    int hops;
    std::promise<void>* done;
    void operator()(MeshPort& here) const {
      if (hops == 0) return done->set_value();
      ASSERT_TRUE(here.try_post(1 - here.core(), Ball{hops - 1, done}));
    }
  };
  Cores cores({.count = 2, .back_end = back_end()});
  std::promise<void> done;
  cores.start([&](Core& core) {
    if (core.index() == 0) EXPECT_TRUE(core.mesh().try_post(1, Ball{20'000, &done}));
    core.run();
  });
  ASSERT_EQ(done.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

// Both cores sleep for want of room in a ring of one message, too. Some of them also wait for a deadline that never
// comes.
TEST_P(CoresThatWake, no_wake_up_for_room_is_lost) {
  static constexpr int posts = 10'000;
  Cores cores({.count = 2, .ring_capacity = 1, .back_end = back_end()});
  std::promise<void> done[2];
  cores.start([&](Core& core) {
    int ran = 0;
    static thread_local int* mine = nullptr;
    mine = &ran;
    const auto play = [](Core& core, std::promise<void>* done) -> Task<void> {
      const unsigned other = 1 - core.index();
      for (int i = 0; i < posts; ++i) {
        const Instant deadline = i % 2 == 0 ? never : core.reactor().now() + 1h;
        EXPECT_TRUE(co_await core.mesh().post(other, deadline, [done = &done[other]] {
          if (++*mine == posts) done->set_value();
        }));
      }
    };
    core.tasks().spawn(play(core, done));
    core.run();
  });
  for (auto& each : done) {
    ASSERT_EQ(each.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  }
}

// Both cores sleep whenever they can, so a lost wake-up would stop the sequence of calls.
TEST_P(CoresThatWake, no_wake_up_for_a_call_is_lost) {
  Cores cores({.count = 2, .back_end = back_end()});
  std::promise<int> done;
  cores.start([&](Core& core) {
    const auto play = [](Core& core, std::promise<int>& done) -> Task<void> {
      int rounds = 0;
      for (; rounds < 20'000; ++rounds) {
        const auto answer = co_await core.mesh().call(1, never, [rounds] { return rounds; });
        if (!answer || *answer != rounds) break;
      }
      done.set_value(rounds);
    };
    if (core.index() == 0) core.tasks().spawn(play(core, done));
    core.run();
  });
  auto rounds = done.get_future();
  ASSERT_EQ(rounds.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(rounds.get(), 20'000);
}

}  // namespace
}  // namespace sluice::core
