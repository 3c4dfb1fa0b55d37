#include "net/resolver.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/core.h"
#include "core/run_to_end.h"
#include "core/simulated_reactor.h"
#include "net/dns_server_for_tests.h"

namespace sluice::net {
namespace {

using core::Task;
using Addressed = std::vector<std::string>;

Task<Resolver::Answer> resolved(Resolver& resolver, core::Mailbox& home, std::string host, Instant deadline = never) {
  co_return co_await resolver.resolve(home, host, deadline);
}

Addressed texts(const Resolver::Answer& answer) {
  if (!answer) return {answer.error()};
  Addressed texts;
  for (const core::Address& address : (*answer)->list) texts.push_back(address.ip());
  return texts;
}

// Names end in a dot, so that the machine's search list is not applied.
class ResolverTest : public ::testing::Test {
 protected:
  Resolver::Answer resolve(const std::string& host) {
    return core::run_to_end(*reactor, &mailbox, resolved(resolver, mailbox, host));
  }
  void pass(Duration time) { clock.store(clock.load() + time); }

  testing::DnsServer server;
  std::atomic<Instant> clock = Instant(1h);
  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  core::Mailbox mailbox{*reactor};
  core::SimulatedReactor virtual_time{1};
  core::Mailbox other{virtual_time};  // the mailbox of another core
  const Resolver::Options options{
      .servers = server.text(), .timeout = 30s, .tries = 1, .clock = [this] { return clock.load(); }};
  Resolver resolver{options};
};

TEST_F(ResolverTest, ANameIsAskedForAgainWhenItsTimeHasPassed) {
  server.set("db.example", {.addresses = {"192.0.2.1"}, .ttl = 30});
  const auto first = resolve("db.example.");
  EXPECT_EQ(texts(first), Addressed{"192.0.2.1"});
  EXPECT_EQ((*first)->until, clock.load() + 30s);
  server.set("db.example", {.addresses = {"192.0.2.2"}, .ttl = 30});
  pass(30s - 1ns);
  EXPECT_EQ(*resolve("db.example."), *first) << "the same list is shared";
  EXPECT_EQ(server.queries("db.example"), 1);
  pass(1ns);
  EXPECT_EQ(texts(resolve("db.example.")), Addressed{"192.0.2.2"});
  EXPECT_EQ(server.queries("db.example"), 2);
}

TEST_F(ResolverTest, TimesHaveBounds) {
  server.set("short.example", {.addresses = {"192.0.2.1"}, .ttl = 0});
  server.set("long.example", {.addresses = {"192.0.2.1"}, .ttl = 1'000'000});
  EXPECT_EQ((*resolve("short.example."))->until, clock.load() + Resolver::shortest);
  EXPECT_EQ((*resolve("long.example."))->until, clock.load() + Resolver::longest);
}

TEST_F(ResolverTest, BothFamiliesAreGiven) {
  server.set("both.example", {.addresses = {"192.0.2.1", "2001:db8::1", "192.0.2.2"}});
  Addressed all = texts(resolve("both.example."));
  std::ranges::sort(all);
  EXPECT_EQ(all, (Addressed{"192.0.2.1", "192.0.2.2", "2001:db8::1"}));
  server.set("six.example", {.addresses = {"2001:db8::1"}});
  EXPECT_EQ(texts(resolve("six.example.")), Addressed{"2001:db8::1"});
}

TEST_F(ResolverTest, AnAddressAsksNobody) {
  for (const std::string ip : {"192.0.2.7", "2001:db8::7"}) {
    const auto answer = resolve(ip);
    EXPECT_EQ(texts(answer), Addressed{ip});
    EXPECT_EQ((*answer)->until, never);
    EXPECT_EQ(server.queries(ip), 0);
  }
}

TEST_F(ResolverTest, TheHostsFileAsksNobody) {
  const auto answer = resolve("localhost");
  ASSERT_TRUE(answer) << answer.error();
  EXPECT_TRUE((*answer)->list.front().is_loopback());
  EXPECT_EQ((*answer)->until, clock.load() + Resolver::hosts_file);
  EXPECT_EQ(server.queries("localhost"), 0);
}

TEST_F(ResolverTest, ThatThereIsNoSuchNameIsKeptBriefly) {
  EXPECT_EQ(texts(resolve("none.example.")), Addressed{"Domain name not found"});
  server.set("none.example", {.addresses = {"192.0.2.1"}});
  pass(Resolver::failure - 1ns);
  EXPECT_FALSE(resolve("none.example."));
  EXPECT_EQ(server.queries("none.example"), 1);
  pass(1ns);
  EXPECT_EQ(texts(resolve("none.example.")), Addressed{"192.0.2.1"});
}

TEST_F(ResolverTest, ANameThatIsGoneEndsItsAddresses) {
  server.set("db.example", {.addresses = {"192.0.2.1"}, .ttl = 30});
  EXPECT_TRUE(resolve("db.example."));
  server.set("db.example", {.code = 3});
  pass(30s);
  EXPECT_EQ(texts(resolve("db.example.")), Addressed{"Domain name not found"});
}

TEST_F(ResolverTest, TheLastAddressesServeWhileServersFail) {
  server.set("db.example", {.addresses = {"192.0.2.1"}, .ttl = 30});
  const auto first = resolve("db.example.");
  server.set("db.example", {.code = 2});
  pass(30s);
  EXPECT_EQ(*resolve("db.example."), *first);
  EXPECT_EQ(server.queries("db.example"), 2);
  EXPECT_EQ(*resolve("db.example."), *first);
  EXPECT_EQ(server.queries("db.example"), 2) << "the failure is kept, too";
  pass(Resolver::failure);
  EXPECT_EQ(*resolve("db.example."), *first);
  EXPECT_EQ(server.queries("db.example"), 3);
  pass(Resolver::stale);
  EXPECT_FALSE(resolve("db.example."));
  server.set("db.example", {.addresses = {"192.0.2.2"}});
  pass(Resolver::failure);
  EXPECT_EQ(texts(resolve("db.example.")), Addressed{"192.0.2.2"});
}

TEST_F(ResolverTest, AServerThatIsSilentIsAnError) {
  server.set("db.example", {.silent = true});
  Resolver hasty{{.servers = server.text(), .timeout = 50ms, .tries = 2}};
  EXPECT_EQ(texts(core::run_to_end(*reactor, &mailbox, resolved(hasty, mailbox, "db.example."))),
            Addressed{"Timeout while contacting DNS servers"});
  EXPECT_EQ(server.queries("db.example"), 2);
}

TEST_F(ResolverTest, AServerThatIsNoneIsAnError) {
  Resolver wrong{{.servers = "nowhere"}};
  EXPECT_FALSE(core::run_to_end(*reactor, &mailbox, resolved(wrong, mailbox, "db.example.")));
  EXPECT_FALSE(core::run_to_end(*reactor, &mailbox, resolved(wrong, mailbox, "other.example.")));
}

TEST_F(ResolverTest, AWaitEndsAtItsDeadline) {
  server.set("db.example", {.addresses = {"192.0.2.1"}, .ttl = 30});
  const auto resolve_by = [&](Instant deadline) {
    return core::run_to_end(virtual_time, &other, resolved(resolver, other, "db.example.", deadline));
  };
  {
    const auto paused = server.pause();
    EXPECT_EQ(texts(resolve_by(virtual_time.now() + 10ms)), Addressed{"no server has answered in time"});
  }
  const auto first = resolve("db.example.");
  ASSERT_TRUE(first) << first.error();
  pass(30s);
  const auto paused = server.pause();
  EXPECT_EQ(*resolve_by(virtual_time.now() + 10ms), *first) << "stale addresses do not wait for a failure";
}

TEST_F(ResolverTest, WhoWaitsMayBeDestroyed) {
  server.set("db.example", {.addresses = {"192.0.2.1"}});
  core::TaskGroup tasks;
  const auto ask = [](Resolver& of, core::Mailbox& home, bool& done) -> Task<void> {
    (void)co_await of.resolve(home, "db.example.", never);
    done = true;
  };
  bool done[3] = {};
  {
    const auto paused = server.pause();
    for (bool& each : done) tasks.spawn(ask(resolver, mailbox, each));
    tasks.cancel();  // before there is an answer
    tasks.spawn(ask(resolver, mailbox, done[0]));
  }
  EXPECT_EQ(texts(resolve("db.example.")), Addressed{"192.0.2.1"});
  mailbox.deliver();
  EXPECT_TRUE(done[0]);
  EXPECT_FALSE(done[1] || done[2]);
  EXPECT_EQ(server.queries("db.example"), 1);
  // Here the answer is already in the mailbox when its caller is destroyed.
  server.set("other.example", {.addresses = {"192.0.2.2"}});
  const auto ask_other = [](Resolver& of, core::Mailbox& home, bool& finished) -> Task<void> {
    (void)co_await of.resolve(home, "other.example.", never);
    finished = true;
  };
  tasks.spawn(ask_other(resolver, other, done[1]));
  EXPECT_EQ(texts(resolve("other.example.")), Addressed{"192.0.2.2"});
  tasks.cancel();
  other.close();
  EXPECT_FALSE(done[1]);
}

TEST_F(ResolverTest, AMailboxThatHasClosedLosesItsAnswer) {
  server.set("db.example", {.addresses = {"192.0.2.1"}});
  core::TaskGroup tasks;
  std::optional<Resolver::Answer> answer;
  tasks.spawn([](Resolver& of, core::Mailbox& home, std::optional<Resolver::Answer>& into) -> Task<void> {
    into = co_await of.resolve(home, "db.example.", never);
  }(resolver, mailbox, answer));
  mailbox.close();
  EXPECT_TRUE(core::run_to_end(virtual_time, &other, resolved(resolver, other, "db.example.")));
  EXPECT_FALSE(answer);
}

// Two cores at once: they share one query and one list.
TEST_F(ResolverTest, AllCoresShareAQuery) {
  server.set("db.example", {.addresses = {"192.0.2.1"}});
  std::promise<Resolver::Answer> answers[2];
  core::Cores cores({.count = 2, .pin = false});
  Resolver of_both{options};
  auto paused = server.pause();
  cores.start([&](core::Core& core) {
    core.tasks().spawn([](Resolver& of, core::Core& here, std::promise<Resolver::Answer>& into) -> Task<void> {
      into.set_value(co_await of.resolve(here.mailbox(), "db.example.", never));
    }(of_both, core, answers[core.index()]));
    core.run();
  });
  paused.unlock();
  const auto first = answers[0].get_future().get();
  EXPECT_EQ(texts(first), Addressed{"192.0.2.1"});
  EXPECT_EQ(*answers[1].get_future().get(), *first);
  EXPECT_EQ(server.queries("db.example"), 1);
}

}  // namespace
}  // namespace sluice::net
