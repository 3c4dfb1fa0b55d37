#include "core/sharded.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/current.h"
#include "core/simulated_reactor.h"
#include "core/task.h"

namespace sluice::core {
namespace {

// The cores of a process, which a test steps on its own thread.
class Machine {
 public:
  explicit Machine(unsigned count, std::size_t ring = 2) : mesh_(count, ring) {
    for (unsigned i = 0; i < count; ++i) cores_.push_back(std::make_unique<One>(mesh_, i));
  }

  [[nodiscard]] unsigned size() const { return mesh_.size(); }
  MeshPort& port(unsigned core) { return cores_[core]->port; }
  TaskGroup& tasks(unsigned core) { return cores_[core]->tasks; }
  [[nodiscard]] bool is_ending(unsigned core) const { return cores_[core]->stage != Stage::runs; }
  void begin_to_end(unsigned core) {
    cores_[core]->stage = Stage::refuses;
    port(core).refuse_new();
  }
  // One turn of the loop, without sleeping.
  void step(unsigned core) {
    One& one = *cores_[core];
    if (one.stage == Stage::ended) return;
    one.port.drain();
    (void)one.port.prepare_to_sleep();
    one.reactor.turn(one.reactor.now());
    one.port.awake();
    if (one.stage == Stage::refuses && one.port.quiet()) {
      one.tasks.cancel();
      one.port.cancel_served();
      one.stage = Stage::flushes;
    }
    if (one.stage == Stage::flushes && one.port.flushed()) {
      one.port.end();
      one.stage = Stage::ended;
    }
  }
  void settle() {
    for (int i = 0; i < 100; ++i) {
      for (unsigned core = 0; core < size(); ++core) step(core);
    }
  }

 private:
  enum class Stage : std::uint8_t { runs, refuses, flushes, ended };
  struct One {
    One(Mesh& mesh, unsigned core) : reactor(core + 1), port(mesh, core, reactor) {}
    SimulatedReactor reactor;
    MeshPort port;
    TaskGroup tasks;
    Stage stage = Stage::runs;
  };
  Mesh mesh_;
  std::vector<std::unique_ptr<One>> cores_;
};

struct Part {
  Part(const Sharded<Part>& parts, unsigned core) : entry(parts, core, *this) {}
  std::vector<int> heard;
  Sharded<Part>::Entry entry;
};

TEST(Sharded, messages_arrive_in_their_order_however_full_the_ring_is) {
  Machine machine(2);
  const Sharded<Part> parts(2);
  Part there(parts, 1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(parts.send(machine.port(0), 1, [i](Part& part) { part.heard.push_back(i); }));
  }
  EXPECT_EQ(machine.port(0).kept(1), 8U);
  EXPECT_TRUE(there.heard.empty());
  machine.settle();
  EXPECT_EQ(machine.port(0).kept(1), 0U);
  EXPECT_EQ(there.heard, (std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Sharded, its_own_core_and_each_core) {
  Machine machine(3);
  const Sharded<Part> parts(3);
  Part here(parts, 0);
  Part there(parts, 2);  // core 1 has none
  EXPECT_EQ(parts.here(machine.port(0)), &here);
  EXPECT_EQ(parts.here(machine.port(1)), nullptr);
  parts.each(machine.port(0), [](Part& part) { part.heard.push_back(1); });
  EXPECT_EQ(here.heard, std::vector{1});  // at once
  machine.settle();
  EXPECT_EQ(there.heard, std::vector{1});
}

TEST(Sharded, a_message_before_its_part_or_after_it_is_dropped) {
  Machine machine(2);
  const Sharded<Part> parts(2);
  const auto tell = [&](int value) {
    EXPECT_TRUE(parts.send(machine.port(0), 1, [value](Part& part) { part.heard.push_back(value); }));
  };
  tell(1);
  machine.settle();
  std::optional<Part> there(std::in_place, parts, 1U);
  tell(2);
  there.reset();
  machine.settle();
  there.emplace(parts, 1U);
  tell(3);
  machine.settle();
  EXPECT_EQ(there->heard, std::vector{3});
}

TEST(Sharded, a_call_without_a_part_says_so) {
  Machine machine(2);
  const Sharded<Part> parts(2);
  std::vector<int> answers;
  const auto ask = [](Machine& machine, const Sharded<Part>& parts, std::vector<int>& answers) -> Task<void> {
    auto fn = [](Part* part, MeshPort& there) { return part != nullptr ? static_cast<int>(there.core()) : -1; };
    const auto answer = co_await parts.call(machine.port(0), 1, never, fn);
    answers.push_back(answer ? *answer : -2);
  };
  machine.tasks(0).spawn(ask(machine, parts, answers));
  machine.settle();
  const Part there(parts, 1);
  machine.tasks(0).spawn(ask(machine, parts, answers));
  machine.settle();
  machine.begin_to_end(1);
  machine.settle();
  machine.tasks(0).spawn(ask(machine, parts, answers));
  EXPECT_EQ(answers, (std::vector{-1, 1, -2}));
  EXPECT_FALSE(parts.send(machine.port(0), 1, [](Part&) {}));
}

// Three cores step, send, call, publish, make and destroy their parts, and end, in an order of chance, with rings that
// are nearly always full. No message arrives twice or out of order; one is missing only if its part was not there the
// whole time, or its core has ended; each call is answered once; a read gives what was published last, or later.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed), current_(std::make_shared<Current<std::uint64_t>>()) {
    current_->publish(std::make_shared<const std::uint64_t>(0));
    for (unsigned core = 0; core < count; ++core) views_.emplace_back(current_);
  }

  void run() {
    for (int i = 0; i < 150; ++i) act();
    machine_.settle();
    for (const auto& [link, numbers] : sent_) check_missing(link.second, numbers, numbers.size());
    EXPECT_EQ(answered_ + cancelled_, called_);
  }

 private:
  static constexpr unsigned count = 3;

  struct Sent {
    std::uint64_t at = 0;
    bool has_arrived = false;
  };
  struct Member {
    Member(World& world, unsigned core) : born(world.clock_), entry(world.parts_, core, *this) {}
    std::uint64_t born;
    Sharded<Member>::Entry entry;
  };
  using Link = std::pair<unsigned, unsigned>;  // from, to

  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }

  void act() {
    ++clock_;
    const unsigned core = below(count);
    switch (below(16)) {
      case 0:
        members_[core].reset();
        break;
      case 1:
      case 2:
        if (!members_[core]) members_[core].emplace(*this, core);
        break;
      case 3:
        if (below(20) == 0 && !machine_.is_ending(core)) machine_.begin_to_end(core);
        break;
      case 4:
        current_->publish(std::make_shared<const std::uint64_t>(++published_));
        break;
      case 5:
        EXPECT_EQ(*views_[core].get(), published_);
        break;
      case 6:
      case 7:
        if (!machine_.is_ending(core)) machine_.tasks(core).spawn(call(core, below(count)));
        break;
      case 8:
      case 9:
      case 10:
      case 11:
        if (!machine_.is_ending(core)) send(core, below(count));
        break;
      default:
        machine_.step(core);
    }
  }

  void send(unsigned from, unsigned to) {
    const Link link(from, to);
    const std::size_t number = sent_[link].size();
    sent_[link].push_back({.at = clock_});
    const auto hear = [this, link, number](Member&) { arrive(link, number); };
    if (!parts_.send(machine_.port(from), to, hear)) {
      EXPECT_TRUE(machine_.is_ending(to));
    }
  }
  void arrive(const Link& link, std::size_t number) {
    std::vector<Sent>& all = sent_[link];
    EXPECT_FALSE(all[number].has_arrived);
    all[number].has_arrived = true;
    for (std::size_t later = number + 1; later < all.size(); ++later) EXPECT_FALSE(all[later].has_arrived);
    check_missing(link.second, all, number);
  }
  // Of the first `end` messages to a core, those that its part must have got.
  void check_missing(unsigned to, const std::vector<Sent>& all, std::size_t end) {
    if (!members_[to] || machine_.is_ending(to)) return;
    for (std::size_t i = 0; i < end; ++i) EXPECT_TRUE(all[i].has_arrived || all[i].at < members_[to]->born);
  }

  Task<void> call(unsigned from, unsigned to) {
    struct Ending {
      explicit Ending(World& of) : world(of) {}
      Ending(const Ending&) = delete;
      ~Ending() { ++(has_answer ? world.answered_ : world.cancelled_); }
      World& world;
      bool has_answer = false;
    } ending(*this);
    ++called_;
    const int id = called_;
    auto fn = [this, id](Member*, MeshPort&) {
      EXPECT_EQ(++ran_[id], 1);
      return id;
    };
    const auto answer = co_await parts_.call(machine_.port(from), to, never, fn);
    ending.has_answer = true;
    if (answer) {
      EXPECT_EQ(*answer, id);
      EXPECT_EQ(ran_[id], 1);
    } else {
      EXPECT_EQ(answer.error().code, Errc::closed);
      EXPECT_TRUE(machine_.is_ending(to));
    }
  }

  std::mt19937_64 random_;
  std::uint64_t clock_ = 0;
  std::map<Link, std::vector<Sent>> sent_;
  std::map<int, int> ran_;
  int called_ = 0;
  int answered_ = 0;
  int cancelled_ = 0;  // their own core ended
  std::shared_ptr<Current<std::uint64_t>> current_;
  std::uint64_t published_ = 0;
  std::vector<Current<std::uint64_t>::View> views_;
  const Sharded<Member> parts_{count};
  std::array<std::optional<Member>, count> members_;
  Machine machine_{count, 1};
};

TEST(Sharded, nothing_is_lost_doubled_or_out_of_order_in_ten_thousand_worlds) {
  for (std::uint64_t seed = 1; seed <= 10'000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World(seed).run();
  }
}

}  // namespace
}  // namespace sluice::core
