// Rooms on two cores over a database that is slow, goes away, and is noticed late or not at all. Rows are committed,
// clients join, read slowly, leave and come back on any core with the position that they had; the listener is lost, the
// counter is made anew, a reload replaces all parts, and members are removed and taken back. Each client gets each row
// once and in order, from its position on, or learns that it has missed some; where everything is kept, it never misses
// any. A client that is no member leaves, whenever it came.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/alarm.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "core/mesh.h"
#include "core/simulated_reactor.h"
#include "rooms/rooms.h"
#include "simulation.h"

namespace sluice::sim {
namespace {

using core::Task;
using rooms::Follower;
using rooms::Position;
using rooms::Publication;
using rooms::SharedName;

constexpr unsigned core_count = 2;
constexpr std::array<std::string_view, 4> keys{"a", "b", "room 7", "d"};

struct Tally {
  std::uint64_t commits = 0, told = 0, joined = 0, recovered = 0, unrecovered = 0, behind = 0, rewound = 0;
  std::uint64_t away = 0, deaf = 0, reloads = 0, ended = 0, refused = 0, expelled = 0;
};

SharedName name_of(std::string_view key) {
  return std::make_shared<const rooms::Name>(
      rooms::Name{.key = std::string(key), .values = {std::string(key)}, .path = "/" + std::string(key)});
}

// The database: the rows of each room in each epoch.
struct Table {
  std::uint64_t epoch = 1;
  std::map<std::uint64_t, std::map<std::string, std::vector<std::uint64_t>, std::less<>>> rows;
  std::map<std::string, std::uint64_t, std::less<>> counters;
  bool is_away = false;

  // Whether the room has a row between the two offsets.
  [[nodiscard]] bool has_between(std::uint64_t of_epoch, std::string_view key, std::uint64_t from,
                                 std::uint64_t to) const {
    const auto epoch_rows = rows.find(of_epoch);
    if (epoch_rows == rows.end()) return false;
    const auto room = epoch_rows->second.find(key);
    if (room == epoch_rows->second.end()) return false;
    return std::ranges::any_of(room->second, [&](std::uint64_t seq) { return seq > from && seq < to; });
  }
};

struct Member {
  bool is_allowed = true;
};

class Client final : public Follower {
 public:
  Client(std::string_view of, const Member& is, core::Reactor& reactor) : key(of), member(is), alarm(reactor) {}
  ~Client() override { leave(); }
  void expel() {
    is_expelled = true;
    alarm.ring();
  }

  const std::string key;
  const Member& member;
  core::Alarm alarm;
  bool is_expelled = false;

 private:
  void news() override { alarm.ring(); }
};

// One core's way to the database.
class SimulatedSource final : public rooms::Source {
 public:
  SimulatedSource(Table& table, core::Reactor& reactor, Random random)
      : table_(table), reactor_(reactor), random_(random) {}

  Task<sql::Result<rooms::Counters>> counters(std::vector<SharedName> names) override {
    co_await Sleep(reactor_, random_.up_to(5ms));
    if (fails()) co_return std::unexpected(away());
    rooms::Counters counters{.epoch = table_.epoch, .of_rooms = {}};
    for (const SharedName& name : names) {
      const auto found = table_.counters.find(name->key);
      if (found != table_.counters.end()) counters.of_rooms.emplace_back(name->key, found->second);
    }
    co_await Sleep(reactor_, random_.up_to(5ms));
    co_return counters;
  }
  Task<sql::Result<rooms::Publications>> after(SharedName name, std::uint64_t offset) override {
    co_await Sleep(reactor_, random_.up_to(5ms));
    if (fails()) co_return std::unexpected(away());
    rooms::Publications found;
    const std::size_t limit = random_.between(1, 6);
    for (const std::uint64_t seq : table_.rows[table_.epoch][name->key]) {
      if (seq <= offset || found.size() == limit) continue;
      found.push_back(std::make_shared<const Publication>(name->path, seq, fmt::format("{{\"of\":{}}}", table_.epoch)));
    }
    co_await Sleep(reactor_, random_.up_to(5ms));
    co_return found;
  }

 private:
  bool fails() { return table_.is_away || random_.chance(0.02); }
  static sql::Error away() { return {.failure = sql::Failure::unavailable, .sqlstate = {}, .message = "away"}; }

  Table& table_;
  core::Reactor& reactor_;
  Random random_;
};

class SimulatedJudge final : public rooms::Rooms::Judge {
 public:
  SimulatedJudge(Table& table, core::Reactor& reactor, Random random)
      : table_(table), reactor_(reactor), random_(random) {}

  Task<bool> judge(std::shared_ptr<rooms::View> room) override {
    std::map<const Member*, bool> verdicts;
    room->each([&](Follower& follower) { verdicts[&static_cast<Client&>(follower).member]; });
    co_await Sleep(reactor_, random_.up_to(5ms));
    if (table_.is_away || random_.chance(0.02)) co_return false;
    for (auto& [member, is_allowed] : verdicts) is_allowed = member->is_allowed;
    co_await Sleep(reactor_, random_.up_to(5ms));
    room->each([&](Follower& follower) {
      auto& client = static_cast<Client&>(follower);
      const auto found = verdicts.find(&client.member);
      if (found != verdicts.end() && !found->second) client.expel();
    });
    co_return true;
  }

 private:
  Table& table_;
  core::Reactor& reactor_;
  Random random_;
};

class World {
 public:
  World(std::uint64_t seed, core::BlockingPool& threads, Tally& tally)
      : random_(seed), tally_(tally), keeps_all_(random_.chance(0.6)) {
    for (unsigned i = 0; i < core_count; ++i) {
      cores_[i] = std::make_unique<core::Core>(mesh_, i, std::make_unique<core::SimulatedReactor>(random_.next()));
      here_.push_back(core::Here{.reactor = cores_[i]->reactor(),
                                 .mailbox = cores_[i]->mailbox(),
                                 .mesh = cores_[i]->mesh(),
                                 .threads = threads});
    }
    now_ = cores_[0]->reactor().now();
    table_.rows[table_.epoch];
    make_parts();
  }
  ~World() {
    for (auto& group : groups_) group.cancel();
    lives_.cancel();
    if (random_.chance(0.5)) std::swap(parts_[0], parts_[1]);
    for (auto& part : parts_) part.reset();
    old_parts_.clear();
  }

  void run() {
    members_.resize(random_.between(3, 9));
    for (const Member& member : members_) {
      const std::string_view key = keys.at(random_.below(keys.size()));
      ++active_;
      lives_.spawn(live(key, member, Random(random_.next())));
    }
    for (int i = 0; i < 1500 && !testing::Test::HasFailure(); ++i) {
      step(random_.up_to(4ms));
      if (random_.chance(0.2)) commit();
      if (random_.chance(0.005)) table_.is_away = !std::exchange(was_away_, !was_away_);
      if (table_.is_away) ++tally_.away;
      if (random_.chance(0.004)) set_deaf(!is_deaf_);
      if (!keeps_all_ && random_.chance(0.002)) make_anew();
      if (random_.chance(0.002)) reload();
      if (random_.chance(0.005)) change_members();
      deliver();
    }
    table_.is_away = false;
    set_deaf(false);
    stop_ = true;
    for (int i = 0; i < 40'000 && active_ != 0 && !testing::Test::HasFailure(); ++i) {
      step(2ms);
      deliver();
    }
    EXPECT_EQ(active_, 0U) << "clients wait for rows that were committed";
  }

 private:
  struct Notice {
    Instant at;
    std::string key;  // empty: the members have changed
    std::uint64_t offset;
  };

  void make_parts() {
    shards_.emplace(core_count);
    for (unsigned i = 0; i < core_count; ++i) {
      rooms::Limits limits;
      limits.linger = random_.up_to(2s);
      if (!keeps_all_) limits.keep = {.count = random_.between(1, 5), .bytes = 1 << 20};
      parts_[i] = std::make_shared<rooms::Rooms>(
          here_[i], *shards_, std::make_unique<SimulatedSource>(table_, here_[i].reactor, Random(random_.next())),
          limits, "test");
      judges_.push_back(std::make_unique<SimulatedJudge>(table_, here_[i].reactor, Random(random_.next())));
      parts_[i]->set_judge(*judges_.back());
      parts_[i]->set_heard(!is_deaf_);
    }
  }
  void reload() {
    ++tally_.reloads;
    for (auto& part : parts_) {
      part->end();
      old_parts_.push_back(std::move(part));
    }
    // Followers of the old parts keep them; the entries of the old shards must not stay.
    make_parts();
    notices_.clear();
  }
  void make_anew() {
    ++table_.epoch;
    table_.counters.clear();
    table_.rows[table_.epoch];
    // As after a restore: the connection with LISTEN has ended.
    notices_.clear();
    for (auto& part : parts_) {
      part->look();
      part->doubt();
    }
  }
  void set_deaf(bool deaf) {
    if (deaf == is_deaf_) return;
    is_deaf_ = deaf;
    ++tally_.deaf;
    if (deaf) notices_.clear();
    for (auto& part : parts_) {
      part->set_heard(!deaf);
      if (!deaf) part->doubt();
    }
  }
  void change_members() {
    Member& member = members_.at(random_.below(members_.size()));
    member.is_allowed = !member.is_allowed;
    if (!is_deaf_) notices_.push_back({now_ + random_.up_to(20ms), {}, 0});
  }
  void commit() {
    const std::string key(keys.at(random_.below(keys.size())));
    const std::uint64_t count = random_.chance(0.1) ? random_.between(2, 20) : 1;
    for (std::uint64_t i = 0; i < count; ++i) table_.rows[table_.epoch][key].push_back(++table_.counters[key]);
    tally_.commits += count;
    if (!is_deaf_) notices_.push_back({now_ + random_.up_to(20ms), key, table_.counters[key]});
  }
  void deliver() {
    while (!notices_.empty() && notices_.front().at <= now_) {
      const Notice notice = std::move(notices_.front());
      notices_.pop_front();
      if (notice.key.empty()) shards_->each(here_[0].mesh, [](rooms::Rooms& rooms) { rooms.doubt(); });
      (void)shards_->send(here_[0].mesh, parts_[0]->owner_of(notice.key),
                          [notice](rooms::Rooms& rooms) { rooms.advanced(notice.key, notice.offset); });
    }
  }
  void step(Duration time) {
    now_ += time;
    const unsigned first = random_.below(2) == 0 ? 0 : 1;
    cores_[first]->step(now_);
    if (random_.chance(0.8) || stop_) cores_[1 - first]->step(now_);
  }

  // Joins on a random core, follows for a while, and comes back. Runs on the loop of core 0 in between.
  Task<void> live(std::string_view key, const Member& member, Random random) {
    std::optional<Position> position;
    while (true) {
      // A follower belongs to one core; the coroutine of each stay runs there.
      const auto core = static_cast<unsigned>(random.below(core_count));
      bool done = false;
      bool is_last = false;
      groups_[core].spawn(stay(core, key, member, random.next(), position, done, is_last));
      while (!done) co_await Sleep(here_[0].reactor, 1ms);
      if (is_last) break;
      co_await Sleep(here_[0].reactor, random.up_to(random.chance(0.1) ? 3s : 50ms));
    }
    --active_;
  }

  Task<void> stay(unsigned core, std::string_view key, const Member& member, std::uint64_t seed,
                  std::optional<Position>& position, bool& done, bool& is_last) {
    struct Done {
      bool& done;
      ~Done() { done = true; }
    } const at_end{done};
    Random random(seed);
    core::Reactor& reactor = here_[core].reactor;
    const std::shared_ptr<rooms::Rooms> rooms = parts_[core];
    Client client(key, member, reactor);
    co_await Sleep(reactor, random.up_to(5ms));
    const bool may_join = member.is_allowed;
    co_await Sleep(reactor, random.up_to(5ms));
    if (!may_join) {
      ++tally_.refused;
      is_last = stop_;
      co_return;
    }
    const auto joined = co_await rooms->join(client, name_of(key), position, reactor.now() + random.between(1, 5) * 1s);
    if (!joined) co_return;
    ++tally_.joined;
    if (position && joined->recovered) {
      ++tally_.recovered;
      EXPECT_EQ(joined->position, *position);
    } else if (position) {
      ++tally_.unrecovered;
      EXPECT_FALSE(keeps_all_) << "everything is kept, and the client was told that it has missed something";
    }
    position = joined->position;
    const Instant end = reactor.now() + random.up_to(random.chance(0.3) ? 500ms : 50ms);
    while (!testing::Test::HasFailure()) {
      if (!stop_ && reactor.now() >= end) co_return;
      if (client.is_expelled) {
        ++tally_.expelled;
        co_return;
      }
      Follower::Next next = client.next();
      switch (next.kind) {
        case Follower::Next::Kind::nothing: {
          const auto counter = table_.counters.find(key);
          const std::uint64_t last = counter == table_.counters.end() ? 0 : counter->second;
          if (stop_ && member.is_allowed && position->epoch == table_.epoch && position->offset == last) {
            is_last = true;
            co_return;
          }
          (void)co_await client.alarm.wait(stop_ ? reactor.now() + 100ms : end);
          break;
        }
        case Follower::Next::Kind::publication:
          take(*next.publication, key, *position);
          if (random.chance(0.2)) co_await Sleep(reactor, random.up_to(5ms));
          break;
        case Follower::Next::Kind::behind:
          ++tally_.behind;
          EXPECT_FALSE(keeps_all_) << "behind, although everything is kept";
          position = next.position;
          break;
        case Follower::Next::Kind::rewound:
          ++tally_.rewound;
          EXPECT_NE(position->epoch, next.position.epoch);
          position = next.position;
          break;
        case Follower::Next::Kind::ended:
          ++tally_.ended;
          co_return;
      }
    }
  }
  void take(const Publication& publication, std::string_view key, Position& position) {
    ++tally_.told;
    EXPECT_TRUE(publication.message().contains("\"/" + std::string(key) + '"')) << "of another room";
    EXPECT_GT(publication.offset, position.offset) << "twice, or out of order";
    if (publication.data() != fmt::format("{{\"of\":{}}}", position.epoch)) {
      // The counter was made anew, and nobody has looked yet: the client learns so next.
      EXPECT_FALSE(keeps_all_);
      position.offset = publication.offset;
      return;
    }
    EXPECT_FALSE(table_.has_between(position.epoch, key, position.offset, publication.offset)) << "a row is lost";
    position.offset = publication.offset;
  }

  Random random_;
  Tally& tally_;
  const bool keeps_all_;
  Table table_;
  core::Mesh mesh_{core_count, 4};
  std::array<std::unique_ptr<core::Core>, core_count> cores_;
  std::vector<core::Here> here_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<SimulatedJudge>> judges_;  // those of replaced parts too
  std::optional<rooms::Rooms::Shards> shards_;
  std::array<std::shared_ptr<rooms::Rooms>, core_count> parts_;
  std::vector<std::shared_ptr<rooms::Rooms>> old_parts_;
  std::array<core::TaskGroup, core_count> groups_;
  core::TaskGroup lives_;
  std::deque<Notice> notices_;
  Instant now_{};
  unsigned active_ = 0;
  bool is_deaf_ = false;
  bool was_away_ = false;
  bool stop_ = false;
};

// SLUICE_WORLDS sets how many worlds there are. SLUICE_SEED and SLUICE_WORLDS=1 repeat a single one.
TEST(RoomsSoak, EachClientGetsEachRowOnceAndInOrder) {
  const char* const given = std::getenv("SLUICE_WORLDS");
  const int count = given != nullptr ? std::atoi(given) : sanitized ? 150 : 1000;
  core::BlockingPool threads(1, 1);
  Tally all;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("SLUICE_SEED={}", seed() + static_cast<std::uint64_t>(i)));
    World(seed() + static_cast<std::uint64_t>(i), threads, all).run();
  }
  fmt::print(
      "{} worlds: {} commits, told {} times; {} joined, {} recovered, {} not; {} behind, {} rewound; {} steps without "
      "a database, {} times deaf or hearing again; {} reloads, {} told of their end; {} refused, {} expelled\n",
      count, all.commits, all.told, all.joined, all.recovered, all.unrecovered, all.behind, all.rewound, all.away,
      all.deaf, all.reloads, all.ended, all.refused, all.expelled);
  if (count < 100) return;
  for (const std::uint64_t each : {all.told, all.recovered, all.unrecovered, all.behind, all.rewound, all.away,
                                   all.deaf, all.reloads, all.ended, all.refused, all.expelled}) {
    EXPECT_GT(each, 0U);
  }
}

}  // namespace
}  // namespace sluice::sim
