#include "gateway/proxy/balance.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

constexpr int keys = 100'000;

std::uint64_t key(int number) { return hash_of("user-" + std::to_string(number)); }

// Servers called "a", "b", ...
class Servers {
 public:
  explicit Servers(std::vector<std::uint32_t> weights) {
    own_.reserve(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) own_.push_back({.id = hash_of(name(i)), .weight = weights[i]});
    for (Candidate& one : own_) all.push_back(&one);
  }
  static std::string name(std::size_t index) { return "10.0.0." + std::to_string(index) + ":8080"; }
  Candidate& operator[](std::size_t index) { return own_[index]; }
  [[nodiscard]] std::size_t index_of(const Candidate* one) const { return static_cast<std::size_t>(one - own_.data()); }
  [[nodiscard]] Choice choice(std::span<const std::uint64_t> tried = {}) const { return {all, tried}; }
  [[nodiscard]] std::string turns(int count) const {
    std::string turns;
    for (int i = 0; i < count; ++i) turns += static_cast<char>('a' + index_of(choice().round_robin()));
    return turns;
  }
  // The id of the server for each key.
  [[nodiscard]] std::vector<std::uint64_t> owners() const {
    std::vector<std::uint64_t> owners;
    for (int i = 0; i < keys; ++i) owners.push_back(choice().hash(key(i))->id);
    return owners;
  }

  std::vector<Candidate*> all;

 private:
  std::vector<Candidate> own_;
};

int differences(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

TEST(RoundRobin, GoesByWeight) {
  EXPECT_EQ(Servers({1, 1, 1}).turns(6), "abcabc");
  EXPECT_EQ(Servers({5, 1, 1}).turns(7), "aabacaa") << "not five in a row";
  EXPECT_EQ(Servers({3, 1}).turns(8), "aabaaaba");
  Servers servers({1, 1, 1});
  servers[1].share = 0;
  EXPECT_EQ(servers.turns(4), "acac");
  servers[1].share = 50;
  const std::string turns = servers.turns(100);
  EXPECT_EQ(std::ranges::count(turns, 'b'), 20);
}

TEST(Choice, LeavesOutWhatWasTriedAndWhatIsEjected) {
  Servers servers({1, 1, 1});
  std::uint64_t random = 1;
  std::vector<std::uint64_t> tried = {servers[0].id, servers[2].id};
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(servers.choice(tried).round_robin(), &servers[1]);
    EXPECT_EQ(servers.choice(tried).least(random), &servers[1]);
    EXPECT_EQ(servers.choice(tried).hash(key(i)), &servers[1]);
  }
  tried = {servers[0].id};
  servers[1].share = 0;
  EXPECT_EQ(servers.choice(tried).round_robin(), &servers[2]);
  servers[2].share = 0;
  const Candidate* left = servers.choice(tried).round_robin();
  EXPECT_TRUE(left == &servers[1] || left == &servers[2]) << "all that are left are ejected";
  servers[1].is_removed = true;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(servers.choice(tried).round_robin(), &servers[2]);
    EXPECT_EQ(servers.choice(tried).least(random), &servers[2]);
    EXPECT_EQ(servers.choice(tried).hash(key(i)), &servers[2]);
  }
  servers[2].is_removed = true;
  EXPECT_EQ(servers.choice(tried).round_robin(), nullptr);
  servers[2].is_removed = servers[1].is_removed = false;
  tried = {servers[0].id, servers[1].id, servers[2].id};
  EXPECT_EQ(servers.choice(tried).round_robin(), nullptr);
  EXPECT_EQ(servers.choice(tried).least(random), nullptr);
  EXPECT_EQ(servers.choice(tried).hash(1), nullptr);
}

TEST(Choice, TakesBackupsOnlyIfNoOtherServerIsLeft) {
  Servers servers({1, 1, 1, 1});
  servers[0].is_backup = servers[1].is_backup = true;
  std::uint64_t random = 1;
  std::vector<std::uint64_t> tried;
  const auto chosen = [&] {
    std::set<std::size_t> indexes;
    for (int i = 0; i < 100; ++i) {
      const Choice choice = servers.choice(tried);
      const std::set<std::size_t> now = {servers.index_of(choice.round_robin()), servers.index_of(choice.least(random)),
                                         servers.index_of(choice.hash(key(i)))};
      indexes.insert(now.begin(), now.end());
    }
    return indexes;
  };
  using Indexes = std::set<std::size_t>;
  EXPECT_EQ(chosen(), (Indexes{2, 3}));
  servers[2].share = 10;
  servers[3].share = 0;
  EXPECT_EQ(chosen(), Indexes{2}) << "one in slow start is up";
  tried = {servers[2].id};
  EXPECT_EQ(chosen(), (Indexes{0, 1}));
  tried = {};
  servers[2].share = 0;
  EXPECT_EQ(chosen(), (Indexes{0, 1}));
  servers[0].share = 0;
  EXPECT_EQ(chosen(), Indexes{1});
  servers[1].share = 0;
  EXPECT_EQ(chosen(), (Indexes{0, 1, 2, 3})) << "all are ejected";
  servers[1].is_removed = servers[2].is_removed = true;
  EXPECT_EQ(chosen(), (Indexes{0, 3}));
}

TEST(Least, DrawsByWeightAndAvoidsTheBusy) {
  Servers servers({3, 1});
  std::uint64_t random = 7;
  int heavy = 0;
  for (int i = 0; i < 10'000; ++i) heavy += servers.choice().least(random) == &servers[0] ? 1 : 0;
  EXPECT_NEAR(heavy, 7500, 200) << "nothing is on its way";
  servers[0].in_flight = 4;
  servers[1].in_flight = 1;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(servers.choice().least(random), &servers[1]) << "4/3 is more than 1/1";
  servers[1].in_flight = 2;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(servers.choice().least(random), &servers[0]);
  EXPECT_EQ(Servers({1}).choice().least(random)->weight, 1u);
}

// Servers that are equally fast get equally many requests; one that hangs gets few.
TEST(Least, KeepsAwayFromAServerThatHangs) {
  Servers servers({1, 1, 1, 1});
  std::uint64_t random = 3;
  std::vector<Candidate*> running;
  int hanging = 0;
  for (int i = 0; i < 4000; ++i) {
    Candidate* one = servers.choice().least(random);
    ++one->in_flight;
    if (one == &servers[0]) {
      ++hanging;
      continue;
    }
    running.push_back(one);
    if (running.size() <= 30) continue;
    --running.front()->in_flight;
    running.erase(running.begin());
  }
  EXPECT_LT(hanging, 30);
}

TEST(Hash, AddingAServerMovesItsKeysAlone) {
  for (const std::size_t count : {1u, 2u, 3u, 9u, 31u}) {
    const Servers before(std::vector<std::uint32_t>(count, 1));
    Servers after(std::vector<std::uint32_t>(count + 1, 1));
    const auto owned = before.owners();
    const auto owned_after = after.owners();
    const int moved = differences(owned, owned_after);
    EXPECT_LE(moved, keys * (1.0 / static_cast<double>(count + 1) + 0.02)) << count;
    EXPECT_GE(moved, keys * (1.0 / static_cast<double>(count + 1) - 0.02)) << count;
    for (int i = 0; i < keys; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (owned[at] != owned_after[at]) EXPECT_EQ(owned_after[at], after[count].id);
    }
  }
}

TEST(Hash, GoesByNameAndNotByPlace) {
  Servers servers({1, 2, 3, 4});
  const auto owned = servers.owners();
  std::ranges::reverse(servers.all);
  EXPECT_EQ(differences(owned, servers.owners()), 0);
}

TEST(Hash, GoesByWeight) {
  Servers servers({1, 2, 5});
  std::map<std::uint64_t, int> count;
  for (const std::uint64_t id : servers.owners()) ++count[id];
  EXPECT_NEAR(count[servers[0].id], keys / 8, keys / 100);
  EXPECT_NEAR(count[servers[1].id], keys / 4, keys / 100);
  EXPECT_NEAR(count[servers[2].id], keys * 5 / 8, keys / 100);
}

TEST(Hash, KeysOfAnEjectedServerGoToAllOthersAndComeBack) {
  Servers servers({1, 1, 1, 1});
  const auto owned = servers.owners();
  servers[2].share = 0;
  const auto without = servers.owners();
  std::map<std::uint64_t, int> got;
  for (int i = 0; i < keys; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_NE(without[at], servers[2].id);
    if (owned[at] == servers[2].id) {
      ++got[without[at]];
    } else {
      EXPECT_EQ(owned[at], without[at]);
    }
  }
  for (const std::size_t other : {0u, 1u, 3u}) EXPECT_NEAR(got[servers[other].id], keys / 12, keys / 100);
  // In slow start a server gets only its own keys, at first a part of them.
  servers[2].share = 50;
  const auto partly = servers.owners();
  int back = 0;
  for (int i = 0; i < keys; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (partly[at] == servers[2].id) {
      ++back;
      EXPECT_EQ(owned[at], servers[2].id);
    } else {
      EXPECT_EQ(partly[at], without[at]);
    }
  }
  EXPECT_NEAR(back, keys / 7, keys / 100);  // half a server beside three whole ones
  servers[2].share = 100;
  EXPECT_EQ(differences(owned, servers.owners()), 0);
}

}  // namespace
}  // namespace sluice::gateway
