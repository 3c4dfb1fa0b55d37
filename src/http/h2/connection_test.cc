#include "http/h2/connection.h"

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "http/h2/client_for_tests.h"
#include "http/server.h"
#include "net/stream.h"

namespace sluice::http::h2 {
namespace {

// Runs the real server on a simulated network, starting with the preface.
class ConnectionTest : public testing::Test, public Observer {
 public:
  void completed(const Completion& completion) override {
    statuses.push_back(completion.status);
    broken += completion.broken ? 1 : 0;
  }
  void serve(const core::Faults& faults = {}, std::uint64_t seed = 7) {
    server.reset();
    handler.reset();
    reactor = std::make_unique<core::SimulatedReactor>(seed, faults);
    handler = std::make_unique<TestHandler>(*reactor);
    server = std::make_unique<Server>(*reactor, *handler, options, this);
    address = *server->listen(*core::Address::parse("127.0.0.1:0"));
  }
  void TearDown() override {
    server.reset();
    if (handler) {
      EXPECT_TRUE(handler->holds_nothing());
    }
  }

  // A client's connection. It sends the output of the client and passes it the received bytes.
  struct Line {
    explicit Line(core::Reactor& reactor) : stream(reactor) {}
    net::Stream stream;
    TestClient* client = nullptr;
    std::string raw;    // sent before the output of the client
    std::string heard;  // received bytes, if there is no client
    bool listens = true;
    bool connected = false;
    bool ended = false;
    bool reset = false;
    bool misunderstood = false;
    core::TaskGroup tasks;

    core::Task<void> hear() {
      Buffer input;
      for (;;) {
        while (!listens) co_await core::Sleep(stream.reactor(), stream.reactor().now() + 1ms);
        const auto got = co_await stream.read(input, 20'000, never);
        if (!got || *got == 0) {
          ended = true;
          reset = !got;
          co_return;
        }
        if (client == nullptr) {
          heard += input.view();
        } else if (!client->receive(input.view())) {
          misunderstood = true;
        }
        input.clear();
      }
    }
    core::Task<void> speak(core::Address to) {
      if (!co_await stream.connect(to, stream.reactor().now() + 5s)) {
        ended = true;
        co_return;
      }
      connected = true;
      tasks.spawn(hear());
      while (!ended) {
        std::string bytes = std::exchange(raw, {});
        if (client != nullptr) bytes += client->take_output();
        if (bytes.empty()) {
          co_await core::Sleep(stream.reactor(), stream.reactor().now() + 200us);
          continue;
        }
        iovec part{bytes.data(), bytes.size()};
        if (!co_await stream.write({&part, 1}, 60s)) co_return;
      }
    }
  };
  std::unique_ptr<Line> connect(TestClient* client) {
    auto line = std::make_unique<Line>(*reactor);
    line->client = client;
    line->tasks.spawn(line->speak(address));
    return line;
  }
  template <class Condition>
  bool run_until(Condition condition, Duration at_most = 20s) {
    const Instant until = reactor->now() + at_most;
    while (!condition() && reactor->now() < until) reactor->turn(reactor->now() + 1ms);
    return condition();
  }

  ServerOptions options;
  std::vector<int> statuses;
  int broken = 0;
  std::unique_ptr<core::SimulatedReactor> reactor;
  std::unique_ptr<TestHandler> handler;
  core::Address address;
  std::unique_ptr<Server> server;
};

const core::Faults bad_weather{.short_read = 0.3, .short_write = 0.3, .would_block = 0.2, .split = 0.3};

TEST_F(ConnectionTest, ManyStreamsInEveryWeather) {
  options.http2_streams = 120;  // the client sends its requests before it receives the limit
  for (const std::uint64_t seed : {1, 2, 3}) {
    for (const core::Faults& faults : {core::Faults{}, bad_weather}) {
      serve(faults, seed);
      TestClient client;
      auto line = connect(&client);
      std::map<std::int32_t, std::string> expected;
      for (std::size_t i = 0; i < 15; ++i) {
        const std::string size = std::to_string(i * i * 700 + 1);
        const std::string tail = size + "/" + std::to_string(i);
        for (const char* kind : {"own", "shared", "spans", "stream", "waits", "later"}) {
          expected[client.get("/" + std::string(kind) + "/" + tail)] = pattern(i, i * i * 700 + 1);
        }
        expected[client.get("/file/" + tail)] = pattern(0, TestHandler::file_size).substr(i, i * i * 700 + 1);
        expected[client.post("/echo", pattern(i, i * 10'000))] = pattern(i, i * 10'000);
      }
      const auto all_closed = [&] {
        for (const auto& [id, body] : expected) {
          if (!client.answers[id].closed) return false;
        }
        return true;
      };
      ASSERT_TRUE(run_until(all_closed, 120s));
      for (const auto& [id, body] : expected) ASSERT_EQ(client.answers[id].body, body) << id;
      EXPECT_FALSE(line->misunderstood);
      EXPECT_TRUE(client.goaways.empty());
    }
  }
}

// A client that reads everything at once must not block the loop for others.
TEST_F(ConnectionTest, ALongStreamGivesWayToOthers) {
  serve({.buffer = 64 << 20});
  TestClient client({.window = 1 << 30});
  client.open_window(0, 1 << 30);
  auto line = connect(&client);
  const std::size_t size = 10 << 20;
  const auto id = client.get("/stream/" + std::to_string(size) + "/1");
  std::size_t most = 0;
  for (int turns = 0; handler->pulled < size && turns < 100'000; ++turns) {
    const std::size_t before = handler->pulled;
    reactor->turn(reactor->now() + 1ms);
    most = std::max(most, handler->pulled - before);
  }
  EXPECT_LE(most, 700u * 1024) << "in one turn";
  EXPECT_GE(most, 300u * 1024);
  ASSERT_TRUE(run_until([&] { return client.answers[id].closed; }));
  EXPECT_EQ(client.answers[id].body.size(), size);
}

TEST_F(ConnectionTest, BothVersionsOnOnePort) {
  serve();
  TestClient client;
  auto line = connect(&client);
  auto plain = connect(nullptr);
  plain->raw = "POST /own/3/1 HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n";
  const auto id = client.get("/own/3/1");
  EXPECT_TRUE(run_until([&] { return client.answers[id].closed && plain->heard.ends_with(pattern(1, 3)); }));
  EXPECT_TRUE(plain->heard.starts_with("HTTP/1.1 200 "));
}

TEST_F(ConnectionTest, ThePrefaceMayComeByteByByte) {
  serve();
  auto line = connect(nullptr);
  const std::string bytes = std::string(preface_text) + frame(4, 0, 0) + frame(1, 5, 1, header_block("/own/10/1"));
  for (const char byte : bytes) {
    line->raw = byte;
    ASSERT_TRUE(run_until([&] { return line->raw.empty(); }));
  }
  EXPECT_TRUE(run_until([&] { return line->heard.contains(pattern(1, 10)); }));
}

TEST_F(ConnectionTest, WhatOnlyBeginsLikeThePrefaceIsHttp1) {
  serve();
  for (const char* request : {"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "PRI * HTTP/1.1\r\nHost: t\r\n\r\n"}) {
    auto line = connect(nullptr);
    line->raw = request;
    EXPECT_TRUE(run_until([&] { return line->ended; }));
    EXPECT_TRUE(line->heard.starts_with("HTTP/1.1 400 ") || line->heard.starts_with("HTTP/1.1 505 ")) << line->heard;
  }
  auto line = connect(nullptr);
  line->raw = "PUT /own/3/1 HTTP/1.1\r\nHost: t\r\n\r\n";
  EXPECT_TRUE(run_until([&] { return line->heard.ends_with(pattern(1, 3)); }));
}

TEST_F(ConnectionTest, WithoutHttp2ThePrefaceIsRefused) {
  options.http2 = false;
  serve();
  auto line = connect(nullptr);
  line->raw = preface_text;
  EXPECT_TRUE(run_until([&] { return line->ended; }));
  EXPECT_TRUE(line->heard.starts_with("HTTP/1.1 4")) << line->heard;
}

TEST_F(ConnectionTest, WithoutHttp1OnlyHttp2IsAnswered) {
  options.http1 = false;
  serve();
  auto plain = connect(nullptr);
  plain->raw = "GET /own/3/1 HTTP/1.1\r\nHost: t\r\n\r\n";
  EXPECT_TRUE(run_until([&] { return plain->ended; }));
  EXPECT_FALSE(plain->heard.contains("HTTP/1.1"));
  TestClient client;
  auto line = connect(&client);
  const auto id = client.get("/own/3/1");
  EXPECT_TRUE(run_until([&] { return client.answers[id].closed; }));
  EXPECT_EQ(handler->requests, 1);
}

TEST_F(ConnectionTest, AResetConnectionCancelsEverything) {
  serve();
  TestClient client({.opens_windows = false});
  auto line = connect(&client);
  client.get("/never");
  client.get("/blocks/10000/1");
  client.get("/stream/200000/1");
  client.post("/echo", "abc", {}, false);
  ASSERT_TRUE(run_until([&] { return handler->waiting == 2 && handler->sources == 2 && handler->read == 3; }));
  reactor->reset_on_close(line->stream.handle());
  line->tasks.cancel();
  line->stream.close();
  EXPECT_TRUE(run_until([&] { return handler->holds_nothing() && server->counters().open == 0; }));
  EXPECT_EQ(broken, 4);
}

TEST_F(ConnectionTest, AClientThatHasEndedItsSideGetsWhatIsReadySoon) {
  serve();
  TestClient client;
  auto line = connect(&client);
  const auto soon = client.get("/waits/5000/1");
  client.get("/never");
  ASSERT_TRUE(run_until([&] { return handler->waiting == 1; }));
  reactor->shutdown_write(line->stream.handle());
  EXPECT_TRUE(run_until([&] { return line->ended; }, 5s));
  EXPECT_EQ(client.answers[soon].body, pattern(1, 5000));
  EXPECT_TRUE(run_until([&] { return server->counters().open == 0 && handler->holds_nothing(); }));
}

TEST_F(ConnectionTest, AClientThatTakesNothingIsClosed) {
  options.write_timeout = 2s;
  serve();
  TestClient client({.window = 1 << 24});
  client.open_window(0, 1 << 24);
  auto line = connect(&client);
  line->listens = false;
  client.get("/shared/2000000/1");
  client.get("/stream/1000000/1");
  ASSERT_TRUE(run_until([&] { return handler->requests == 2; }));
  EXPECT_TRUE(run_until([&] { return server->counters().open == 0; }, 10s));
  EXPECT_TRUE(handler->holds_nothing());
  EXPECT_LT(handler->pulled, 300'000u);
}

TEST_F(ConnectionTest, AWindowThatStaysShutEndsTheStreamInTime) {
  options.write_timeout = 3s;
  serve();
  TestClient client({.opens_windows = false, .window = 100});
  auto line = connect(&client);
  const Instant began = reactor->now();
  const auto id = client.get("/stream/1000/1");
  EXPECT_TRUE(run_until([&] { return client.answers[id].closed; }, 10s));
  EXPECT_EQ(client.answers[id].error, 8u);
  EXPECT_GE(reactor->now() - began, 3s);
  EXPECT_LE(reactor->now() - began, 4s);
}

TEST_F(ConnectionTest, DrainingFinishesWhatRunsAndCloses) {
  serve();
  TestClient busy, idle;
  auto busy_line = connect(&busy);
  auto idle_line = connect(&idle);
  const auto id = busy.get("/waits/30000/1");
  const auto before = idle.get("/own/1/1");
  ASSERT_TRUE(run_until([&] { return idle.answers[before].closed && handler->sources == 1; }));
  server->drain();
  EXPECT_TRUE(run_until([&] { return server->drained(); }, 10s));
  EXPECT_EQ(busy.answers[id].body, pattern(1, 30'000));
  EXPECT_EQ(busy.answers[id].trailers.at("row-count"), "30000");
  ASSERT_EQ(busy.goaways.size(), 2u);
  EXPECT_EQ(busy.goaways[1].first, id);
  EXPECT_FALSE(idle.goaways.empty());  // nghttp2's client stops reading when it has no open requests
  EXPECT_FALSE(busy_line->reset || idle_line->reset);
}

TEST_F(ConnectionTest, ARequestThatCrossesTheGoawayIsStillAnswered) {
  serve(core::Faults{.min_delay = 20ms, .max_delay = 20ms});
  TestClient client;
  auto line = connect(&client);
  const auto first = client.get("/own/1/1");
  ASSERT_TRUE(run_until([&] { return client.answers[first].closed; }));
  server->drain();
  const auto crossing = client.get("/own/2/1");
  EXPECT_TRUE(run_until([&] { return server->drained(); }, 10s));
  EXPECT_EQ(client.answers[crossing].body, pattern(1, 2));
}

TEST_F(ConnectionTest, IdleConnectionsAreClosedAndBusyOnesAreNot) {
  options.idle_timeout = 1s;
  serve();
  TestClient idle, busy;
  auto idle_line = connect(&idle);
  auto busy_line = connect(&busy);
  busy.get("/never");
  EXPECT_TRUE(run_until([&] { return idle_line->ended; }, 5s));
  EXPECT_EQ(idle.goaways.size(), 1u);
  EXPECT_FALSE(run_until([&] { return busy_line->ended; }, 20s));
}

// ---- Upgrades ----

TEST_F(ConnectionTest, UpgradesInEveryWeather) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    serve(bad_weather, seed);
    TestClient client;
    auto line = connect(&client);
    std::map<std::int32_t, std::string> said;
    for (std::size_t i = 0; i < 6; ++i) said[client.open("/echo")] = pattern(i, 30'000 * i);
    const auto greeted = client.open("/greet/200000/1");
    const auto between = client.get("/waits/20000/1");
    for (const auto& [id, bytes] : said) {
      for (std::size_t at = 0; at < bytes.size(); at += 7'000)
        client.say(id, std::string_view(bytes).substr(at, 7'000));
    }
    ASSERT_TRUE(run_until([&] {
      return std::ranges::all_of(said,
                                 [&](const auto& each) { return client.answers[each.first].body == each.second; });
    })) << seed;
    for (const auto& [id, bytes] : said) client.end_side(id);
    client.end_side(greeted);
    ASSERT_TRUE(run_until([&] { return client.answers[greeted].closed && handler->upgrades == 0; })) << seed;
    EXPECT_EQ(client.answers[greeted].body, pattern(1, 200'000));
    ASSERT_TRUE(run_until([&] { return client.answers[between].closed; }));
    EXPECT_EQ(client.answers[between].body, pattern(1, 20'000));
    EXPECT_FALSE(line->misunderstood);
  }
}

TEST_F(ConnectionTest, AQuietUpgradeKeepsItsConnection) {
  options.idle_timeout = 1s;
  options.write_timeout = 1s;
  options.header_timeout = 1s;
  serve();
  TestClient client;
  auto line = connect(&client);
  const auto id = client.open("/echo");
  EXPECT_FALSE(run_until([&] { return line->ended; }, 100s));
  client.say(id, "still there");
  EXPECT_TRUE(run_until([&] { return client.answers[id].body == "still there"; }));
  client.end_side(id);
  EXPECT_TRUE(run_until([&] { return line->ended; }, 5s)) << "without it, it is idle";
  EXPECT_EQ(client.goaways.size(), 1u);
}

TEST_F(ConnectionTest, AnUpgradeHearsThatItsConnectionIsGone) {
  for (const bool orderly : {false, true}) {
    serve();
    TestClient client;
    auto line = connect(&client);
    client.open("/echo");
    client.open("/lasts");
    ASSERT_TRUE(run_until([&] { return handler->upgrades == 2; }));
    if (orderly) {
      reactor->shutdown_write(line->stream.handle());
    } else {
      reactor->reset_on_close(line->stream.handle());
      line->tasks.cancel();
      line->stream.close();
    }
    EXPECT_TRUE(run_until([&] { return handler->upgrades == 1; }, 1500ms)) << orderly;
    EXPECT_EQ(server->counters().open, 1u) << "until all of them have ended";
    EXPECT_TRUE(run_until([&] { return server->counters().open == 0; }, 5s)) << orderly;
    EXPECT_EQ(handler->upgrades, 0);
    EXPECT_EQ(handler->heard, (std::vector<std::string>{"closed", "closed"}));
  }
}

TEST_F(ConnectionTest, DrainingEndsUpgrades) {
  serve();
  TestClient client;
  auto line = connect(&client);
  const auto echo = client.open("/echo");
  const auto silent = client.open("/echo");
  ASSERT_TRUE(run_until([&] { return handler->upgrades == 2 && client.answers[silent].status == 200; }));
  server->drain();
  ASSERT_TRUE(run_until([&] { return client.answers[echo].ended; }));
  client.end_side(echo);
  EXPECT_TRUE(run_until([&] { return server->drained(); }, 10s)) << "one that does not end its side is not waited for";
  EXPECT_EQ(client.answers[silent].body, "bye");
  EXPECT_FALSE(line->reset);
}

TEST_F(ConnectionTest, AServerThatGoesCutsUpgrades) {
  serve();
  TestClient client;
  auto line = connect(&client);
  client.open("/echo");
  client.open("/deaf");
  ASSERT_TRUE(run_until([&] { return handler->upgrades == 2; }));
  server.reset();
  EXPECT_EQ(handler->upgrades, 0);
  EXPECT_TRUE(handler->heard.empty());
}

TEST_F(ConnectionTest, AHeaderThatTricklesIsNotWaitedFor) {
  options.header_timeout = 2s;
  serve();
  auto line = connect(nullptr);
  line->raw = std::string(preface_text) + frame(4, 0, 0) + frame(1, 1, 1, "\x82");
  const Instant began = reactor->now();
  EXPECT_TRUE(run_until([&] { return line->ended; }, 20s));
  EXPECT_GE(reactor->now() - began, 2s);
  EXPECT_LE(reactor->now() - began, 5s);
  EXPECT_TRUE(run_until([&] { return server->counters().open == 0; }, 5s));
}

TEST_F(ConnectionTest, TooManyConnectionsAreToldSo) {
  options.connections = 1;
  serve();
  TestClient one, two;
  auto first = connect(&one);
  const auto id = one.get("/own/1/1");
  ASSERT_TRUE(run_until([&] { return one.answers[id].closed; }));
  auto second = connect(&two);
  two.get("/own/1/1");
  EXPECT_TRUE(run_until([&] { return second->ended; }));
  ASSERT_EQ(two.goaways.size(), 1u);
  EXPECT_EQ(two.goaways[0], (std::pair<std::int32_t, std::uint32_t>(0, 0)));
  EXPECT_EQ(handler->requests, 1);
}

TEST_F(ConnectionTest, AFloodIsClosedEvenIfNobodyListens) {
  serve();
  for (const std::string& attack : {frame(6, 0, 0, "12345678"), frame(4, 0, 0), frame(8, 0, 0, number(1)),
                                    frame(1, 5, 1, header_block("/never")) + frame(3, 0, 1, number(8))}) {
    auto line = connect(nullptr);
    line->listens = false;
    line->raw = std::string(preface_text) + frame(4, 0, 0);
    std::uint32_t id = 1;
    ASSERT_TRUE(run_until(
                    [&] {
                      if (line->raw.empty() && line->connected) {
                        for (int i = 0; i < 100; ++i, id += 2) {
                          std::string bytes = attack;
                          if (bytes.size() > 20) {  // new stream ids each time
                            bytes.replace(5, 4, number(id));
                            bytes.replace(bytes.size() - 8, 4, number(id));
                          }
                          line->raw += bytes;
                        }
                      }
                      return line->ended || server->counters().open == 0 || id > 400'000;
                    },
                    60s) &&
                id < 400'000);
    EXPECT_TRUE(run_until([&] { return server->counters().open == 0; }, 60s));
  }
}

// ---- Listeners and options that change while the server runs ----

class ChangingServer : public ConnectionTest {
 public:
  // Sends an HTTP/1.1 request on an open connection and returns the server's response.
  std::string ask(Line& line, const std::string& path, const std::string& more = "") {
    line.heard.clear();
    line.raw = "PUT " + path + " HTTP/1.1\r\nHost: t\r\n" + more + "\r\n";
    EXPECT_TRUE(run_until([&] { return line.ended || (line.raw.empty() && line.heard.contains("\r\n\r\n")); })) << path;
    return line.heard.substr(0, line.heard.find("\r\n"));
  }
  int status(TestClient& client, const std::string& path) {
    const auto id = client.get(path);
    EXPECT_TRUE(run_until([&] { return client.answers[id].closed; })) << path;
    return client.answers[id].status;
  }
  std::unique_ptr<Line> connect_to(const core::Address& to, TestClient* client = nullptr) {
    address = to;
    return connect(client);
  }
};

const std::string ok = "HTTP/1.1 200 OK";

TEST_F(ChangingServer, AnAddedAddressIsListenedOnOnlyWhenTheServerIsTold) {
  serve();
  const core::Address first = address;
  const core::Address added = *server->bind({.address = *core::Address::parse("127.0.0.1:0")});
  EXPECT_EQ(server->bind({.address = added})->text(), added.text()) << "once";
  auto early = connect_to(added);
  EXPECT_TRUE(run_until([&] { return early->ended; }));
  EXPECT_FALSE(early->connected);

  const net::Listening both[] = {{first}, {added}};
  ASSERT_TRUE(server->listen_on(both));
  for (const core::Address& to : {first, added}) {
    auto line = connect_to(to);
    EXPECT_EQ(ask(*line, "/own/3/1"), ok) << to.text();
  }
}

TEST_F(ChangingServer, AnAddressThatIsNotListenedOnIsLetGoOf) {
  serve();
  const core::Address bound = *server->bind({.address = *core::Address::parse("127.0.0.1:0")});
  core::Handle other;
  EXPECT_FALSE(reactor->bind(other, bound, false));
  const net::Listening first[] = {{address}};
  ASSERT_TRUE(server->listen_on(first));
  EXPECT_TRUE(reactor->bind(other, bound, false));
  reactor->close(other);
}

TEST_F(ChangingServer, ARemovedAddressServesThoseThatWaitThere) {
  serve();
  const core::Address kept = address;
  const core::Address removed = *server->listen(*core::Address::parse("unix:/removed"));
  auto open = connect_to(removed);
  EXPECT_EQ(ask(*open, "/own/3/1"), ok);
  std::vector<std::unique_ptr<Line>> waiting;
  for (int i = 0; i < 100; ++i) waiting.push_back(connect_to(removed));  // more than the server accepts in one turn
  EXPECT_EQ(server->counters().accepted, 1u);
  const net::Listening rest[] = {{kept}};
  ASSERT_TRUE(server->listen_on(rest));
  for (const auto& line : waiting) {
    ASSERT_TRUE(line->connected);
    EXPECT_EQ(ask(*line, "/own/3/1"), ok);
  }
  EXPECT_EQ(ask(*open, "/own/3/1"), ok);
  auto late = connect_to(removed);
  EXPECT_TRUE(run_until([&] { return late->ended; }));
  EXPECT_FALSE(late->connected);
  auto line = connect_to(kept);
  EXPECT_EQ(ask(*line, "/own/3/1"), ok);
  // The address can be used again.
  ASSERT_TRUE(server->listen(removed));
  auto again = connect_to(removed);
  EXPECT_EQ(ask(*again, "/own/3/1"), ok);
}

TEST_F(ChangingServer, ARemovedAddressEndsWithTheServer) {
  serve();
  ASSERT_TRUE(server->listen_on({}));
  server->drain();
  EXPECT_TRUE(run_until([&] { return server->drained(); }));
}

TEST_F(ChangingServer, LimitsHoldFromTheNextRequestOfAConnection) {
  serve();
  const std::string longer = "/own/3/1/" + std::string(200, 'x');
  auto idle = connect(nullptr);
  EXPECT_EQ(ask(*idle, longer), ok);
  auto spare = connect(nullptr);  // its workspace is reused by the next connection
  EXPECT_EQ(ask(*spare, longer), ok);
  auto busy = connect(nullptr);
  busy->raw = "PUT /later/3/1 HTTP/1.1\r\nHost: t\r\n\r\n";
  auto lender = connect(nullptr);
  lender->raw = busy->raw;
  ASSERT_TRUE(run_until([&] { return handler->waiting == 2; }));
  auto half = connect(nullptr);
  half->raw = "PUT " + longer + " HTTP/1.1\r\nHos";
  ASSERT_TRUE(run_until([&] { return half->raw.empty(); }));
  TestClient client;
  auto multiplexed = connect(&client);
  EXPECT_EQ(status(client, longer), 200);

  options.target_limit = 100;
  server->set_options(options);
  // The second of these requests arrives while the first is still being answered.
  busy->raw = "PUT " + longer + " HTTP/1.1\r\nHost: t\r\n\r\n";
  ASSERT_TRUE(run_until([&] { return lender->heard.ends_with(pattern(1, 3)); }));
  auto borrower = connect(nullptr);  // gets the workspace of `lender`
  EXPECT_EQ(ask(*borrower, longer).substr(0, 12), "HTTP/1.1 414");
  half->raw = "t: t\r\n\r\n";
  for (const auto& line : {&busy, &half}) EXPECT_TRUE(run_until([&] { return (*line)->ended; }));
  EXPECT_TRUE(busy->heard.starts_with(ok));
  EXPECT_EQ(busy->heard.substr(busy->heard.find("HTTP/1.1 ", 1)).substr(0, 12), "HTTP/1.1 414");
  EXPECT_EQ(half->heard.substr(0, 12), "HTTP/1.1 414");
  EXPECT_EQ(ask(*idle, longer).substr(0, 12), "HTTP/1.1 414");
  EXPECT_EQ(status(client, longer), 200) << "it was told of other limits";
  TestClient next_client;
  auto next = connect(&next_client);
  EXPECT_EQ(status(next_client, longer), 414);

  EXPECT_EQ(ask(*spare, "/own/3/1"), ok);
  options.target_limit = 8 * 1024;
  server->set_options(options);
  EXPECT_EQ(ask(*spare, longer), ok);
}

TEST_F(ChangingServer, ARequestThatIsReadAgainIsAnsweredOnce) {
  serve();
  auto line = connect(nullptr);
  for (const std::size_t limit : {10u, 20u, 128u}) {
    line->heard.clear();
    line->raw = "PUT /own/3/1 HTTP/1.1\r\nHost: t\r\n";
    ASSERT_TRUE(run_until([&] { return line->raw.empty(); }));
    options.field_limit = limit;
    server->set_options(options);
    line->raw = "A: b\r\n\r\nPUT /own/4/2 HTTP/1.1\r\nHost: t\r\n\r\n";
    EXPECT_TRUE(run_until([&] { return line->heard.ends_with(pattern(2, 4)); }));
    EXPECT_TRUE(line->heard.contains(pattern(1, 3) + "HTTP/1.1 200 OK"));
  }
  EXPECT_EQ(handler->requests, 6);
}

TEST_F(ChangingServer, FieldsOfAnswersChangeOnOpenConnections) {
  serve();
  auto line = connect(nullptr);
  TestClient client;
  auto multiplexed = connect(&client);
  ask(*line, "/own/3/1");
  EXPECT_TRUE(line->heard.contains("Server: sluice\r\n")) << line->heard;
  EXPECT_EQ(status(client, "/own/3/1"), 200);
  options.answer_fields = std::make_shared<AnswerFields>("another", AnswerFields::List{{"X-Added", "1"}});
  server->set_options(options);
  ask(*line, "/own/3/1");
  EXPECT_TRUE(line->heard.contains("Server: another\r\n") && line->heard.contains("X-Added: 1\r\n")) << line->heard;
  EXPECT_EQ(status(client, "/own/3/1"), 200);
  EXPECT_EQ(client.answers[3].fields["server"], "another");
  EXPECT_EQ(client.answers[3].fields["x-added"], "1");
  options.answer_fields = std::make_shared<AnswerFields>("");
  server->set_options(options);
  ask(*line, "/own/3/1");
  EXPECT_FALSE(line->heard.contains("Server:") || line->heard.contains("X-Added")) << line->heard;
  EXPECT_EQ(status(client, "/own/3/1"), 200);
  EXPECT_FALSE(client.answers[5].fields.contains("server") || client.answers[5].fields.contains("x-added"));
}

TEST_F(ChangingServer, WithoutHttp2OpenConnectionsAreToldToGo) {
  serve();
  TestClient client;
  auto line = connect(&client);
  const auto talk = client.open("/echo");
  const auto running = client.get("/waits/5000/1");
  auto silent = connect(nullptr);
  ASSERT_TRUE(run_until([&] { return handler->sources == 1 && handler->upgrades == 1 && silent->connected; }));
  options.http2 = false;
  server->set_options(options);
  EXPECT_TRUE(run_until([&] { return client.answers[running].closed && client.goaways.size() == 2; }));
  EXPECT_EQ(client.answers[running].body, pattern(1, 5000));
  EXPECT_EQ(client.goaways.back().second, 0u);
  // Upgraded streams continue until they end.
  client.say(talk, "still here");
  EXPECT_TRUE(run_until([&] { return client.answers[talk].body == "still here"; }));
  EXPECT_FALSE(line->ended);
  client.end_side(talk);
  EXPECT_TRUE(run_until([&] { return line->ended; }));
  auto after = connect(nullptr);
  for (Line* one : {silent.get(), after.get()}) {
    one->raw = preface_text;
    EXPECT_TRUE(run_until([&] { return one->ended; }));
    EXPECT_TRUE(one->heard.starts_with("HTTP/1.1 4")) << one->heard;
  }
  options.http2 = true;
  server->set_options(options);
  TestClient again;
  auto next = connect(&again);
  EXPECT_EQ(status(again, "/own/3/1"), 200);
}

TEST_F(ChangingServer, FewerConnectionsCloseNobody) {
  serve();
  std::vector<std::unique_ptr<Line>> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(connect(nullptr));
    EXPECT_EQ(ask(*open.back(), "/own/3/1"), ok);
  }
  options.connections = 1;
  server->set_options(options);
  for (const auto& line : open) EXPECT_EQ(ask(*line, "/own/3/1"), ok);
  auto more = connect(nullptr);
  EXPECT_EQ(ask(*more, "/own/3/1").substr(0, 12), "HTTP/1.1 503");
  options.connections = 10;
  server->set_options(options);
  auto last = connect(nullptr);
  EXPECT_EQ(ask(*last, "/own/3/1"), ok);
}

TEST_F(ChangingServer, ABodyThatIsOnItsWayMayBeAsLongAsItMightWhenItBegan) {
  options.body_limit = 20'000;
  serve();
  TestClient client;
  auto multiplexed = connect(&client);
  const auto running = client.post("/echo", pattern(1, 10'000), {}, false);
  auto line = connect(nullptr);
  const std::string chunk = "2710\r\n" + pattern(1, 10'000) + "\r\n";
  const std::string head = "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
  line->raw = head + chunk;
  ASSERT_TRUE(run_until([&] { return handler->read == 20'000; }));
  options.body_limit = 5'000;
  server->set_options(options);
  client.say(running, pattern(2, 1000));
  client.end_side(running);
  EXPECT_TRUE(run_until([&] { return client.answers[running].closed; }));
  EXPECT_EQ(client.answers[running].body, pattern(1, 10'000) + pattern(2, 1000));
  line->raw = "3e8\r\n" + pattern(2, 1000) + "\r\n0\r\n\r\n";
  EXPECT_TRUE(run_until([&] { return line->heard.ends_with(pattern(2, 1000)); }));
  EXPECT_TRUE(line->heard.starts_with(ok)) << line->heard.substr(0, 200);
  line->heard.clear();
  line->raw = head + chunk + "0\r\n\r\n";
  EXPECT_TRUE(run_until([&] { return line->ended; }));
  EXPECT_EQ(line->heard.substr(0, 12), "HTTP/1.1 413");
  const auto refused = client.post("/echo", pattern(1, 10'000));
  EXPECT_TRUE(run_until([&] { return client.answers[refused].closed; }));
  EXPECT_EQ(client.answers[refused].status, 413);
}

}  // namespace
}  // namespace sluice::http::h2
