#include "gateway/basic/policy.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <argon2.h>
#include <gtest/gtest.h>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/run_to_end.h"
#include "http/identity.h"

namespace sluice::gateway::basic {
namespace {

// A hash with the lowest cost that argon2 allows.
std::string cheap_hash(const std::string& password) {
  char hash[128];
  EXPECT_EQ(argon2id_hash_encoded(1, 8, 1, password.data(), password.size(), "somesalt", 8, 32, hash, sizeof hash),
            ARGON2_OK);
  return hash;
}

constexpr const char* ada = "Basic YWRhOmxvdmVsYWNl";      // ada:lovelace
constexpr const char* ada_bad = "Basic YWRhOkxvdmVsYWNl";  // ada:Lovelace
constexpr const char* bob = "Basic Ym9iOmxvdmVsYWNl";      // bob:lovelace

class BasicPolicyTest : public testing::Test {
 protected:
  struct Asked {
    http::Exchange exchange;
    http::Slot slot;
    std::vector<http::Field> fields;
    std::optional<core::Async<std::optional<http::Response>>> asking;
    std::optional<http::Response> answer;
    bool done = false;
  };

  void make() { policy = std::make_unique<BasicPolicy>(options, *reactor, mailbox, threads); }
  std::unique_ptr<Asked> begin(std::vector<http::Field> fields, std::string_view peer = "192.0.2.1") {
    if (policy == nullptr) make();
    auto asked = std::make_unique<Asked>();
    asked->fields = std::move(fields);
    asked->exchange.request.fields = asked->fields;
    asked->exchange.request.peer = peer;
    auto asking = policy->before(asked->exchange, asked->slot);
    if (asking.ready()) {
      asked->answer = asking.take();
      asked->done = true;
    } else {
      waiting.spawn(finish(*asked, asking.take_task()));
    }
    return asked;
  }
  static core::Task<void> finish(Asked& asked, core::Task<std::optional<http::Response>> asking) {
    asked.answer = co_await std::move(asking);
    asked.done = true;
  }
  void run_until_done(Asked& asked) {
    while (!asked.done) {
      mailbox.deliver();
      reactor->turn(reactor->clock() + 5ms);
    }
  }
  void end(Asked& asked) { policy->ended(asked.exchange, asked.slot, {}); }
  // The status, or 0 if the request passes.
  int ask(std::vector<http::Field> fields) {
    auto asked = begin(std::move(fields));
    run_until_done(*asked);
    const http::Claims* const claims = http::claims_of(asked->exchange);
    subject = claims ? claims->find("sub")->text : "";
    passed = asked->exchange.request.fields.size();
    challenge = asked->answer ? asked->answer->fields.get("WWW-Authenticate") : "";
    end(*asked);
    return asked->answer ? asked->answer->status : 0;
  }
  int ask(const char* authorization) { return ask({{"Authorization", authorization}, {"A", "b"}}); }
  double count(std::string_view name, std::string_view labels = {}) {
    for (const Reading& reading : policy->readings()) {
      if (reading.name == name && (labels.empty() || reading.labels.contains(labels))) return reading.value;
    }
    return -1;
  }

  Options options = [] {
    Options made;
    made.users = {{.name = {"ada"}, .value = {.hash = cheap_hash("lovelace")}},
                  {.name = {"grace"}, .value = {.hash = cheap_hash("hopper")}}};
    return made;
  }();
  const std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  core::Mailbox mailbox{*reactor};
  core::BlockingPool threads{1, 16};
  std::unique_ptr<BasicPolicy> policy;
  core::TaskGroup waiting;
  std::string subject, challenge;
  std::size_t passed = 0;
};

TEST_F(BasicPolicyTest, KnowsItsUsers) {
  EXPECT_EQ(ask(ada), 0);
  EXPECT_EQ(subject, "ada");
  EXPECT_EQ(passed, 1U) << "the password is for nobody else";
  EXPECT_EQ(ask("Basic Z3JhY2U6aG9wcGVy"), 0);
  EXPECT_EQ(subject, "grace");
}

TEST_F(BasicPolicyTest, RefusesAllElse) {
  EXPECT_EQ(ask(std::vector<http::Field>{}), 401);
  EXPECT_EQ(challenge, "Basic realm=\"sluice\", charset=\"UTF-8\"");
  for (const char* bad : {"", "Basic", ada_bad, bob, "Bearer YWRhOmxvdmVsYWNl", "Basic YWRhOg==", "Basic YWRh",
                          "Basic QURBOmxvdmVsYWNl", "Basic YWRhOmhvcHBlcg=="}) {
    EXPECT_EQ(ask(bad), 401) << bad;
    EXPECT_EQ(subject, "");
    EXPECT_NE(challenge, "");
  }
  EXPECT_EQ(ask({{"Authorization", ada}, {"authorization", ada}}), 400);
}

TEST_F(BasicPolicyTest, VerifiesForNamesThatNobodyHas) {
  EXPECT_EQ(ask(bob), 401);
  EXPECT_EQ(ask(ada_bad), 401);
  EXPECT_EQ(count("sluice_basic_verifications_total"), 2);
}

TEST_F(BasicPolicyTest, RemembersWhatWasRight) {
  EXPECT_EQ(ask(ada), 0);
  EXPECT_EQ(ask(ada), 0);
  EXPECT_EQ(subject, "ada");
  EXPECT_EQ(ask(ada_bad), 401);
  EXPECT_EQ(ask(ada_bad), 401);
  EXPECT_EQ(count("sluice_basic_verifications_total"), 3);
  EXPECT_EQ(count("sluice_basic_cache_hits_total"), 1);
}

TEST_F(BasicPolicyTest, RemembersSoMany) {
  options.cache_users = 1;
  EXPECT_EQ(ask(ada), 0);
  EXPECT_EQ(ask("Basic Z3JhY2U6aG9wcGVy"), 0);
  EXPECT_EQ(count("sluice_basic_cache_users"), 1);
  EXPECT_EQ(ask(ada), 0);
  EXPECT_EQ(count("sluice_basic_verifications_total"), 3);
}

TEST_F(BasicPolicyTest, RemembersNothingWhereItIsNotTo) {
  options.cache_for = 0s;
  EXPECT_EQ(ask(ada), 0);
  EXPECT_EQ(ask(ada), 0);
  EXPECT_EQ(count("sluice_basic_verifications_total"), 2);
}

TEST_F(BasicPolicyTest, SoManyWait) {
  options.queue = 2;
  auto first = begin({{"Authorization", ada}});
  auto second = begin({{"Authorization", ada}}, "192.0.2.2");
  auto third = begin({{"Authorization", ada}}, "192.0.2.3");
  ASSERT_TRUE(third->done && !first->done && !second->done);
  EXPECT_EQ(third->answer->status, 503);
  EXPECT_EQ(third->answer->fields.get("Retry-After"), "1");
  run_until_done(*first);
  run_until_done(*second);
  EXPECT_FALSE(first->answer || second->answer);
  EXPECT_EQ(count("sluice_basic_verifications_total"), 1) << "the second one found it remembered";
  end(*first);
  end(*second);
}

// Wrong passwords from one network leave places for the users of others.
TEST_F(BasicPolicyTest, OneNetworkHasHalfOfThePlaces) {
  for (const auto& [guesser, same, other] :
       {std::array{"192.0.2.1", "192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}}) {
    options.queue = 4;
    make();
    auto first = begin({{"Authorization", ada_bad}}, guesser);
    auto second = begin({{"Authorization", bob}}, same);
    auto third = begin({{"Authorization", ada}}, same);
    ASSERT_TRUE(third->done);
    EXPECT_EQ(third->answer->status, 503);
    auto user = begin({{"Authorization", ada}}, other);
    for (Asked* one : {first.get(), second.get(), user.get()}) run_until_done(*one);
    EXPECT_FALSE(user->answer);
    auto later = begin({{"Authorization", ada}}, same);
    EXPECT_TRUE(later->done && !later->answer) << "the places are free again";
    for (Asked* one : {first.get(), second.get(), third.get(), user.get(), later.get()}) end(*one);
  }
}

// A guesser that asks again at once does not overtake a user who waits, and networks take turns.
TEST_F(BasicPolicyTest, WhoWaitsComesBeforeNewRequests) {
  make();
  std::deque<std::unique_ptr<Asked>> guesses;
  for (int i = 0; i < 5; ++i) guesses.push_back(begin({{"Authorization", ada_bad}}, "192.0.2.1"));
  auto user = begin({{"Authorization", ada}}, "192.0.2.2");
  int guessed = 0;
  while (!user->done && guessed < 50) {
    mailbox.deliver();
    reactor->turn(reactor->clock() + 5ms);
    if (!guesses.front()->done) continue;
    ++guessed;
    end(*guesses.front());
    guesses.pop_front();
    guesses.push_back(begin({{"Authorization", ada_bad}}, "192.0.2.1"));
  }
  EXPECT_TRUE(user->done && !user->answer);
  EXPECT_LE(guessed, 2);
  waiting.cancel();
  for (const auto& one : guesses) end(*one);
  end(*user);
}

// If a client leaves during its verification, the thread keeps the turn until it has finished.
TEST_F(BasicPolicyTest, AClientThatLeavesMakesNoRoomBefore) {
  auto first = begin({{"Authorization", ada}});
  waiting.cancel();
  auto second = begin({{"Authorization", bob}});
  run_until_done(*second);
  EXPECT_EQ(second->answer->status, 401);
  end(*first);
  end(*second);
}

}  // namespace
}  // namespace sluice::gateway::basic
