#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"
#include "http/filter.h"
#include "http/identity.h"

namespace sluice::http {
namespace {

class Witness final : public FilterOf<Witness> {
 public:
  Witness(std::string name, std::string& told) : name_(std::move(name)), told_(told) {}

  core::Async<std::optional<Response>> before(Exchange&, Slot& slot) override {
    told_ += name_ + "? ";
    EXPECT_EQ(slot.value, 0u);
    slot.value = 7;
    if (reactor != nullptr) return later();
    return judge();
  }
  void after(Exchange&, Slot& slot, Response& response) override {
    told_ += name_ + std::to_string(response.status) + " ";
    EXPECT_EQ(slot.value, 7u);
  }
  void ended(Exchange&, Slot& slot, const Outcome& outcome) override {
    told_ += name_ + "." + std::to_string(outcome.status) + (outcome.broken ? "! " : " ");
    EXPECT_EQ(slot.value, 7u);
  }

  int answer = 0;                    // the status that before() answers with; 0: the request continues
  core::Reactor* reactor = nullptr;  // if set, before() waits first

 private:
  std::optional<Response> judge() const {
    if (answer == 0) return std::nullopt;
    return problem(answer);
  }
  core::Task<std::optional<Response>> later() {
    co_await core::Sleep(*reactor, reactor->now() + 1ms);
    co_return judge();
  }

  const std::string name_;
  std::string& told_;
};

class WitnessOfRequest final : public FilterOf<WitnessOfRequest> {
 public:
  explicit WitnessOfRequest(std::string& told) : told_(told) {}
  core::Async<std::optional<Response>> before(Exchange&, Slot&) override {
    told_ += "l? ";
    return std::optional<Response>();
  }

 private:
  std::string& told_;
};

class WitnessOfResponse final : public FilterOf<WitnessOfResponse> {
 public:
  explicit WitnessOfResponse(std::string& told) : told_(told) {}
  core::Async<std::optional<Response>> before(Exchange&, Slot&) override {
    told_ += "r? ";
    return std::optional<Response>();
  }
  void after(Exchange&, Slot&, Response& response) override { told_ += "r" + std::to_string(response.status) + " "; }

 private:
  std::string& told_;
};

class ExchangeTest : public testing::Test {
 public:
  // Runs the filters and completes the exchange with their response.
  core::Task<void> run() {
    auto answer = co_await exchange.ask(filters);
    Response response = answer ? std::move(*answer) : Response{};
    exchange.filter(response);
    exchange.end({.status = response.status, .broken = false});
  }
  void wait() {
    while (!tasks.empty()) reactor.turn(reactor.timers().next());
  }

  core::SimulatedReactor reactor{1};
  std::string told;
  std::shared_ptr<Witness> shared_a = std::make_shared<Witness>("a", told);
  std::shared_ptr<Witness> shared_b = std::make_shared<Witness>("b", told);
  std::shared_ptr<Witness> shared_c = std::make_shared<Witness>("c", told);
  Witness& a = *shared_a;
  Witness& b = *shared_b;
  Witness& c = *shared_c;
  std::vector<std::shared_ptr<Filter>> filters = {shared_a, shared_b, shared_c};
  Exchange exchange;
  core::TaskGroup tasks;
};

TEST_F(ExchangeTest, FiltersAreAskedInOrderAndToldInReverse) {
  for (int i = 0; i < 2; ++i) {
    told.clear();
    tasks.spawn(run());
    EXPECT_TRUE(tasks.empty());
    EXPECT_EQ(told, "a? b? c? c200 b200 a200 c.200 b.200 a.200 ");
    exchange.reset();
  }
}

TEST_F(ExchangeTest, AnswersAreNotBroughtToThoseBehindWhomNobodyWantsThem) {
  const auto last = std::make_shared<WitnessOfRequest>(told);
  filters = {last};
  tasks.spawn(run());
  EXPECT_EQ(told, "l? ");
  told.clear();
  filters = {shared_a, last};
  exchange.reset();
  tasks.spawn(run());
  EXPECT_EQ(told, "a? l? a200 a.200 ");
}

TEST_F(ExchangeTest, AFilterThatOnlyChangesTheResponseDoesNotWaitForItsEnd) {
  filters = {std::make_shared<WitnessOfResponse>(told)};
  tasks.spawn(run());
  EXPECT_EQ(told, "r? r200 ");
  exchange.reset();
  tasks.spawn([](ExchangeTest& test) -> core::Task<void> { (void)co_await test.exchange.ask(test.filters); }(*this));
  EXPECT_EQ(exchange.continue_upgraded(), nullptr);
}

TEST_F(ExchangeTest, TheFirstAnswerIsSeenByThoseThatWereAsked) {
  b.answer = 401;
  tasks.spawn(run());
  EXPECT_EQ(told, "a? b? b401 a401 b.401 a.401 ");
}

TEST_F(ExchangeTest, AFilterMayWait) {
  a.reactor = c.reactor = &reactor;
  tasks.spawn(run());
  EXPECT_EQ(told, "a? ");
  wait();
  EXPECT_EQ(told, "a? b? c? c200 b200 a200 c.200 b.200 a.200 ");
  told.clear();
  b.answer = 403;
  tasks.spawn(run());
  wait();
  EXPECT_EQ(told, "a? b? b403 a403 b.403 a.403 ");
}

TEST_F(ExchangeTest, WhoWasAskedHearsOfTheEndOnce) {
  b.reactor = &reactor;
  tasks.spawn(run());
  tasks.cancel();
  EXPECT_EQ(told, "a? b? ");
  exchange.reset();
  EXPECT_EQ(told, "a? b? b.499! a.499! ");
  exchange.reset();
  exchange.end({});
  EXPECT_EQ(told, "a? b? b.499! a.499! ");
}

TEST_F(ExchangeTest, WhatWasFoundEndsWithTheRequest) {
  const auto claims = Claims::parse("{}");
  exchange.attributes.set(Identity{.claims = claims, .expires_s = 1});
  exchange.request.extension = ".csv";
  exchange.request.route = 7;
  exchange.request.own_fields = 3;
  EXPECT_EQ(claims_of(exchange), claims.get());
  EXPECT_EQ(expires_s_of(exchange), 1);
  exchange.reset();
  EXPECT_EQ(claims.use_count(), 1);
  EXPECT_EQ(claims_of(exchange), nullptr);
  EXPECT_EQ(expires_s_of(exchange), std::numeric_limits<double>::infinity());
  EXPECT_EQ(exchange.request.extension, "");
  EXPECT_EQ(exchange.request.route, 0);
  EXPECT_EQ(exchange.request.own_fields, 0u);
}

TEST_F(ExchangeTest, AnUpgradeEndsLaterThanItsRequest) {
  const std::weak_ptr<Filter> last = shared_c;
  tasks.spawn([](ExchangeTest& test) -> core::Task<void> {
    auto answer = co_await test.exchange.ask(test.filters);
    Response response{.status = 101, .fields = {}, .body = {}};
    test.exchange.filter(response);
  }(*this));
  EXPECT_EQ(told, "a? b? c? c101 b101 a101 ");
  told.clear();
  auto upgraded = exchange.continue_upgraded();
  ASSERT_NE(upgraded, nullptr);
  exchange.reset();
  filters.clear();
  shared_c.reset();
  EXPECT_EQ(told, "");
  EXPECT_FALSE(last.expired());
  upgraded->end({.status = 101, .broken = false});
  EXPECT_EQ(told, "c.101 b.101 a.101 ");
  upgraded.reset();
  EXPECT_TRUE(last.expired());
  EXPECT_EQ(told, "c.101 b.101 a.101 ");
}

TEST_F(ExchangeTest, AnUpgradeThatIsCancelledEndsBroken) {
  tasks.spawn([](ExchangeTest& test) -> core::Task<void> { (void)co_await test.exchange.ask(test.filters); }(*this));
  auto upgraded = exchange.continue_upgraded();
  told.clear();
  upgraded.reset();
  EXPECT_EQ(told, "c.499! b.499! a.499! ");
  EXPECT_EQ(exchange.continue_upgraded(), nullptr);
}

}  // namespace
}  // namespace sluice::http
