#include "msg/groups.h"

#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "msg/sessions.h"

namespace sluice::msg {
namespace {

// A session that counts the frames that it gets.
class CountingSession final : public Session {
 public:
  explicit CountingSession(Sessions& sessions) : Session(sessions, sessions.next_id()) {
    sessions_.add(*this);
    sessions_.set_open(*this);
  }
  [[nodiscard]] bool secure() const override { return false; }
  int heard = 0;

 private:
  void turn_end() override {
    Outbox now = std::move(outbox_);
    if (now.empty()) return;
    Outbox::Position at;
    while (!now.next(at).bytes.empty()) ++heard;
    written();
  }
};

class GroupsTest : public testing::Test, Sessions::Observer {
 protected:
  CountingSession& session() { return *new CountingSession(sessions_); }
  void end_turn() { reactor_.turn(reactor_.now()); }

  core::SimulatedReactor reactor_{1, core::Faults{}};
  Dispatcher dispatcher_;
  Groups groups_;
  Sessions sessions_{reactor_, 0, dispatcher_, this, {}};
  const Payload payload_ = make_payload({.id = 1});

 private:
  void opened(Session&) override {}
  void closed(Session& session, Ended) override { groups_.leave_all(session); }
};

TEST_F(GroupsTest, OnlyMembersHear) {
  CountingSession& in = session();
  CountingSession& out = session();
  CountingSession& left = session();
  for (CountingSession* one : {&in, &left}) groups_.join(*one, "a");
  groups_.join(in, "a");
  groups_.leave(left, "a");
  groups_.leave(left, "a");
  groups_.leave(left, "b");
  groups_.broadcast("a", payload_);
  groups_.broadcast("b", payload_);
  end_turn();
  EXPECT_EQ(in.heard, 1);
  EXPECT_EQ(out.heard, 0);
  EXPECT_EQ(left.heard, 0);
  EXPECT_EQ(groups_.size("a"), 1u);
  EXPECT_TRUE(groups_.has(in, "a"));
  EXPECT_FALSE(groups_.has(left, "a"));
}

TEST_F(GroupsTest, ASessionLeavesWhenItEnds) {
  CountingSession& one = session();
  groups_.join(one, "a");
  groups_.join(one, "b");
  const SessionRef kept(one);
  one.cut(Ended::by_peer);
  groups_.join(one, "c");
  EXPECT_EQ(groups_.size("a"), 1u) << "until the end of the turn";
  end_turn();
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(groups_.size(name), 0u) << name;
}

TEST_F(GroupsTest, ASessionIsInAThousandAtMost) {
  CountingSession& one = session();
  for (std::size_t i = 0; i < Groups::most_of_session; ++i) EXPECT_TRUE(groups_.join(one, std::to_string(i)));
  EXPECT_FALSE(groups_.join(one, "another"));
  EXPECT_TRUE(groups_.join(one, "7"));
  groups_.leave(one, "7");
  EXPECT_TRUE(groups_.join(one, "another"));
}

// Against a model: joins, leaves and ends in any order.
TEST_F(GroupsTest, EachMemberHearsEachMessageOnce) {
  std::mt19937 source(1);
  const auto below = [&](std::size_t limit) { return source() % limit; };
  std::map<CountingSession*, std::set<std::string>> model;
  const auto any_name = [&] { return "room " + std::to_string(below(7)); };
  for (int step = 0; step < 50'000; ++step) {
    if (model.empty() || (model.size() < 40 && below(10) == 0)) model[&session()];
    auto at = model.begin();
    std::advance(at, below(model.size()));
    auto& [one, names] = *at;
    const std::string name = any_name();
    groups_.validate();
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        groups_.join(*one, name);
        names.insert(name);
        break;
      case 3:
      case 4:
        groups_.leave(*one, name);
        names.erase(name);
        break;
      case 5:
        if (below(4) != 0) break;
        one->cut(Ended::by_peer);
        end_turn();
        model.erase(at);
        break;
      default:
        for (auto& [each, of_each] : model) each->heard = 0;
        groups_.broadcast(name, payload_);
        end_turn();
        std::size_t members = 0;
        for (auto& [each, of_each] : model) {
          ASSERT_EQ(each->heard, of_each.contains(name) ? 1 : 0);
          members += of_each.contains(name);
        }
        ASSERT_EQ(groups_.size(name), members);
    }
  }
}

}  // namespace
}  // namespace sluice::msg
