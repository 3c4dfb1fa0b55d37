#include "sql/postgres/listener.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sql/postgres/cluster.h"
#include "sql/postgres/url.h"

namespace sluice::sql::postgres {
namespace {

class ListenerTest : public testing::Test, public ChangeSink {
 protected:
  void listen(std::vector<std::string> channels, ListenerOptions timing = {.first_pause = 1ms, .longest_pause = 20ms}) {
    auto options = options_from_url(Cluster::shared().url());
    ASSERT_TRUE(options) << options.error();
    options->connect_timeout_ms = 20'000;
    options->application_name = "listener_test";
    std::vector<Topic> topics;
    for (std::string& channel : channels) topics.push_back({.channel = std::move(channel), .tables = {}});
    listener = std::make_unique<Listener>("main", *reactor, std::move(*options), std::move(topics), *this, timing);
    tasks.spawn(listener->run());
  }
  void TearDown() override { tasks.cancel(); }

  core::Task<void> changed(std::span<const Change> changes) override {
    most = std::max(most, changes.size());
    for (const Change& change : changes) told.push_back(std::to_string(change.topic) + " " + std::string(change.text));
    co_return;
  }
  core::Task<void> resumed() override {
    told.emplace_back("resumed");
    co_return;
  }
  bool until(const std::function<bool()>& condition) {
    const Instant end = reactor->now() + 20s;
    while (!condition()) {
      if (reactor->now() >= end) return false;
      reactor->turn(reactor->now() + 5ms);
    }
    return true;
  }
  // Waits for `count` reports and returns all that have come.
  std::vector<std::string> news(std::size_t count) {
    EXPECT_TRUE(until([&] { return told.size() >= count; })) << told.size();
    return std::exchange(told, {});
  }
  using News = std::vector<std::string>;

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  std::unique_ptr<Listener> listener;
  core::TaskGroup tasks;
  std::vector<std::string> told;
  std::size_t most = 0;
};

constexpr const char* own = "FROM pg_stat_activity WHERE application_name = 'listener_test (changes)'";

TEST_F(ListenerTest, TellsOfWhatIsCommittedInItsOrder) {
  listen({"films", "Odd \"name\"", "films"});
  EXPECT_EQ(news(1), News{"resumed"});
  EXPECT_TRUE(listener->counters().listening);
  Cluster::shared().psql("NOTIFY films, 'one'; NOTIFY other, 'no'; NOTIFY \"Odd \"\"name\"\"\", 'two'");
  EXPECT_EQ(news(3), (News{"0 one", "2 one", "1 two"}));
  Cluster::shared().psql("BEGIN; NOTIFY films, 'rolled back'; ROLLBACK; NOTIFY films; NOTIFY films, 'Grüße'");
  EXPECT_EQ(news(4), (News{"0 ", "2 ", "0 Grüße", "2 Grüße"}));
  EXPECT_EQ(Cluster::shared().psql(std::string("SELECT count(*) ") + own), "1\n");
}

TEST_F(ListenerTest, ListensNoMoreToAChannelWhoseLastTopicIsDropped) {
  listen({"films", "tags", "tags"});
  (void)news(1);
  const std::string query = std::string("SELECT query ") + own;
  listener->drop(1);
  Cluster::shared().psql("NOTIFY tags, 'one'");
  EXPECT_EQ(news(1), News{"2 one"});
  listener->drop(2);
  Cluster::shared().psql("NOTIFY tags; NOTIFY films, 'two'");
  EXPECT_EQ(news(1), News{"0 two"});
  EXPECT_TRUE(until([&] { return Cluster::shared().psql(query) == "UNLISTEN \"tags\";\n"; }))
      << Cluster::shared().psql(query);
  ASSERT_EQ(listener->add({.channel = "tags", .tables = {}}), 1u);
  tasks.spawn(listener->settle());
  EXPECT_TRUE(until([&] { return Cluster::shared().psql(query) == "LISTEN \"tags\";\n"; }));
  Cluster::shared().psql("NOTIFY tags, 'three'");
  EXPECT_EQ(news(1), News{"1 three"});
  EXPECT_EQ(listener->counters().connections, 1u);
}

TEST_F(ListenerTest, ManyAtOnceAreToldOfInPieces) {
  listen({"films"});
  (void)news(1);
  Cluster::shared().psql("SELECT pg_notify('films', repeat('x', 7000) || n) FROM generate_series(1, 500) n");
  const auto all = news(500);
  ASSERT_EQ(all.size(), 500u);
  EXPECT_EQ(all.front().size(), 2 + 7000 + 1u);
  EXPECT_TRUE(all.back().ends_with("x500"));
  EXPECT_LE(most, Listener::most_changes);
}

TEST_F(ListenerTest, ComesBackWhenItsBackendIsEnded) {
  listen({"films"});
  (void)news(1);
  for (int i = 0; i < 2; ++i) {
    Cluster::shared().psql(std::string("SELECT pg_terminate_backend(pid) ") + own);
    EXPECT_EQ(news(1), News{"resumed"});
    Cluster::shared().psql("NOTIFY films, 'after'");
    EXPECT_EQ(news(1), News{"0 after"});
  }
  EXPECT_EQ(listener->counters().connections, 3u);
}

TEST_F(ListenerTest, AsksForASignOfLifeInSilence) {
  listen({"films"}, {.silence = 10ms, .first_pause = 1ms, .longest_pause = 20ms});
  (void)news(1);
  const Instant end = reactor->now() + 200ms;
  while (reactor->now() < end) reactor->turn(reactor->now() + 5ms);
  // An empty query was sent, and pg_stat_activity shows it.
  EXPECT_EQ(Cluster::shared().psql(std::string("SELECT query ") + own), "\n");
  Cluster::shared().psql("NOTIFY films, 'still'");
  EXPECT_EQ(news(1), News{"0 still"});
  EXPECT_EQ(listener->counters().connections, 1u);
}

// A server with scripted answers.
class FakeServer {
 public:
  explicit FakeServer(core::Reactor& reactor) : reactor_(reactor) {
    EXPECT_TRUE(reactor.listen(listener_, *core::Address::parse("127.0.0.1:0"), {}));
  }
  ~FakeServer() {
    streams_.clear();
    reactor_.close(listener_);
  }
  [[nodiscard]] core::Address address() { return *reactor_.local_address(listener_); }
  // Accepts a connection, and answers its first packets with `script`.
  void serve(core::TaskGroup& tasks, std::vector<std::string> script) {
    auto stream = std::make_unique<net::Stream>(reactor_);
    const auto got = reactor_.accept(listener_, stream->handle(), nullptr);
    if (!got || !*got) return;
    ++accepted;
    streams_.push_back(std::move(stream));
    tasks.spawn(answer(*streams_.back(), std::move(script)));
  }
  int accepted = 0;

 private:
  static core::Task<void> answer(net::Stream& stream, std::vector<std::string> script) {
    for (std::string& text : script) {
      Buffer in;
      const auto got = co_await stream.read(in, 4096, never);
      if (!got || *got == 0) co_return;
      iovec part{text.data(), text.size()};
      (void)co_await stream.write({&part, 1}, 20s);
    }
    Buffer rest;
    for (;;) {
      const auto got = co_await stream.read(rest, 4096, never);
      if (!got || *got == 0) co_return;
    }
  }
  core::Reactor& reactor_;
  core::Handle listener_;
  std::vector<std::unique_ptr<net::Stream>> streams_;
};

std::string u32(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}
std::string message(char type, const std::string& payload) {
  return type + u32(static_cast<std::uint32_t>(payload.size() + 4)) + payload;
}
std::string notification(const std::string& channel, const std::string& payload) {
  return message('A', u32(1) + channel + '\0' + payload + '\0');
}

TEST_F(ListenerTest, AServerThatFallsSilentOrTalksNonsenseIsLeft) {
  using namespace std::string_literals;
  const std::string started = message('R', u32(0)) + message('Z', "I");
  const std::string set = message('C', "SELECT 0\0"s) + message('Z', "I");
  const std::string listening = message('C', "LISTEN\0"s) + message('Z', "I");
  core::TaskGroup serving;
  FakeServer server(*reactor);
  Options options;
  options.addresses = {server.address()};
  options.user = options.database = "u";
  options.connect_timeout_ms = 50;
  listener =
      std::make_unique<Listener>("main", *reactor, options, std::vector<Topic>{{.channel = "films", .tables = {}}},
                                 *this, ListenerOptions{.silence = 10ms, .first_pause = 1ms, .longest_pause = 2ms});
  tasks.spawn(listener->run());
  const auto until_resumed = [&](const std::vector<std::string>& script) {
    const Instant end = reactor->now() + 20s;
    const std::size_t before = told.size();
    while (told.size() == before && reactor->now() < end) {
      reactor->turn(reactor->now() + 1ms);
      server.serve(serving, script);
    }
  };
  // The server refuses LISTEN with an error.
  const std::string refused = message('E', "SERROR\0VERROR\0C25006\0Mcannot LISTEN\0\0"s) + message('Z', "I");
  for (const Instant end = reactor->now() + 20s; server.accepted < 3 && reactor->now() < end;) {
    reactor->turn(reactor->now() + 1ms);
    server.serve(serving, {started, set, refused});
  }
  EXPECT_TRUE(told.empty());
  // A notification in the answer to LISTEN comes before resumed() and is ignored; later notifications are reported.
  until_resumed({started, set, notification("films", "early") + listening + notification("films", "on")});
  until_resumed({started, set, listening});  // the previous server is silent and does not answer the keep-alive query
  EXPECT_GE(server.accepted, 5);
  const auto first = std::exchange(told, {});
  EXPECT_EQ(first.front(), "resumed");
  EXPECT_EQ(std::ranges::count(first, "0 early"), 0);
  EXPECT_GE(std::ranges::count(first, "0 on"), 1);
  // A malformed notification, and a message that is too long.
  until_resumed({started, set, listening + message('A', "x")});
  until_resumed({started, set, listening + 'A' + u32(1 << 24)});
  until_resumed({started, set, listening});
  EXPECT_EQ(std::ranges::count(told, "resumed"), static_cast<std::ptrdiff_t>(told.size()));
  tasks.cancel();
  serving.cancel();
}

}  // namespace
}  // namespace sluice::sql::postgres
