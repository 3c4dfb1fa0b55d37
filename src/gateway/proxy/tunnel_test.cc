#include "gateway/proxy/tunnel.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "gateway/proxy/fields.h"
#include "gateway/proxy/proxy.h"
#include "http/server.h"
#include "http/websocket/handshake.h"

namespace sluice::gateway {
namespace {

using core::Task;

constexpr std::string_view client_key = "dGhlIHNhbXBsZSBub25jZQ==";
const std::string websocket_request =
    "GET /chat?a=b HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: p\r\nSec-WebSocket-Key: " +
    std::string(client_key) + "\r\n\r\n";
const std::string echo_request = "POST /a HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo/2\r\n\r\n";
const std::string echo_response = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo/2\r\n\r\n";

std::string websocket_response(std::string_view key = client_key) {
  return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Back: "
         "1\r\nContent-Length: 5\r\n"
         "Sec-WebSocket-Protocol: p\r\nSec-WebSocket-Accept: " +
         http::websocket::accept_for(key) + "\r\n\r\n";
}

// A client, the gateway and a server on one simulated core. The test controls both ends.
class TunnelTest : public testing::Test {
 protected:
  explicit TunnelTest(std::uint64_t seed = 11) : reactor_(seed) {}

  struct End {
    explicit End(core::Reactor& reactor) : stream(reactor) {}
    net::Stream stream;
    std::string heard;
    std::optional<Result<std::size_t>> ended;  // 0: the peer has ended its stream; otherwise it was cut
    bool reads = true;
    core::TaskGroup tasks;
  };

  static Task<void> listen(End& end) {
    Buffer bytes;
    for (;;) {
      const auto got = co_await end.stream.read(bytes, 1 << 16, never);
      if (!got || *got == 0) {
        end.ended = got;
        co_return;
      }
      end.heard += bytes.view();
      bytes.clear();
    }
  }
  static Task<void> write(End& end, std::string bytes) {
    iovec part{bytes.data(), bytes.size()};
    (void)co_await end.stream.write({&part, 1}, 24h);
  }
  static void say(End& end, std::string bytes) { end.tasks.spawn(write(end, std::move(bytes))); }
  void end_side(End& end) { reactor_.shutdown_write(end.stream.handle()); }
  static void leave(End& end) {
    end.tasks.cancel();
    end.stream.cut();
    end.stream.close();
  }

  void start() {
    ASSERT_TRUE(reactor_.listen(listener_.handle(), *core::Address::parse("127.0.0.1:0"), {}));
    options_.name = Located<std::string>("a");
    options_.servers = {{.url = {"http://" + reactor_.local_address(listener_.handle())->text()}}};
    shared_ = std::make_shared<SharedUpstream>(options_);
    upstream_ = std::make_shared<Upstream>(reactor_, mailbox_, nullptr, shared_);
    proxy_.emplace(upstream_, shared_, route_, ProxyOptions{.upgrade = protocols_});
    front_.emplace(reactor_, *proxy_, http::ServerOptions{});
    address_ = *front_->listen(*core::Address::parse("127.0.0.1:0"));
  }
  End& ask(std::string request) {
    End& client = ends_.emplace_back(reactor_);
    client.tasks.spawn([](End& end, core::Address to, std::string bytes) -> Task<void> {
      EXPECT_TRUE(co_await end.stream.connect(to, never));
      say(end, std::move(bytes));
      if (end.reads) co_await listen(end);
    }(client, address_, std::move(request)));
    pass(50ms);
    return client;
  }
  // The server's end of the connection that the gateway has opened.
  End& accepted() {
    End& server = ends_.emplace_back(reactor_);
    const auto accepted = reactor_.accept(listener_.handle(), server.stream.handle(), nullptr);
    EXPECT_TRUE(accepted && *accepted);
    server.tasks.spawn(listen(server));
    pass(50ms);
    return server;
  }
  std::pair<End*, End*> open() {
    End& client = ask(echo_request);
    End& server = accepted();
    say(server, echo_response);
    pass(50ms);
    EXPECT_TRUE(client.heard.starts_with("HTTP/1.1 101 ")) << client.heard;
    client.heard.clear();
    server.heard.clear();
    return {&client, &server};
  }
  void pass(Duration time) {
    const Instant until = reactor_.now() + time;
    while (reactor_.now() < until && !reactor_.deadlocked()) reactor_.turn(until);
  }
  double reading(std::string_view name) {
    double sum = 0;
    for (const Reading& one : upstream_->readings()) {
      if (one.name == name) sum += one.value;
    }
    return sum;
  }
  double opened() { return reading("sluice_upstream_tunnels"); }
  static bool was_ended(const End& end) { return end.ended && *end.ended; }
  static bool was_cut(const End& end) { return end.ended && !*end.ended; }

  core::SimulatedReactor reactor_;
  core::Mailbox mailbox_{reactor_};
  UpstreamOptions options_;
  net::Stream listener_{reactor_};
  const std::vector<Located<std::string>> protocols_{{"websocket"}, {"echo/2"}};
  std::shared_ptr<const int> route_ = std::make_shared<int>(1);
  std::shared_ptr<SharedUpstream> shared_;
  std::shared_ptr<Upstream> upstream_;
  std::optional<Proxy> proxy_;
  std::optional<http::Server> front_;
  core::Address address_;
  std::deque<End> ends_;
};

TEST_F(TunnelTest, AWebSocketPasses) {
  start();
  End& client = ask(websocket_request + "early");
  End& server = accepted();
  EXPECT_EQ(server.heard,
            "GET /chat?a=b HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: p\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Forwarded-For: " +
                reactor_.local_address(client.stream.handle())->ip() +
                "\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nVia: 1.1 " + via_name() +
                "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
      << "what comes behind the head waits for the answer";
  server.heard.clear();
  say(server, websocket_response() + "first");
  pass(50ms);
  const std::size_t head = client.heard.find("\r\n\r\n") + 4;
  EXPECT_EQ(client.heard.substr(head), "first");
  client.heard.resize(head);
  EXPECT_TRUE(client.heard.starts_with("HTTP/1.1 101 Switching Protocols\r\n"));
  for (const char* const line : {"Connection: upgrade", "Upgrade: websocket", "X-Back: 1", "Sec-WebSocket-Protocol: p",
                                 "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}) {
    EXPECT_NE(client.heard.find("\r\n" + std::string(line) + "\r\n"), std::string::npos) << line;
  }
  EXPECT_EQ(client.heard.find("Content-Length"), std::string::npos);
  EXPECT_EQ(server.heard, "early");
  say(client, " late");
  pass(50ms);
  EXPECT_EQ(server.heard, "early late");
  EXPECT_EQ(opened(), 1);

  say(server, "bye");
  end_side(server);
  pass(50ms);
  EXPECT_TRUE(client.heard.ends_with("bye"));
  EXPECT_TRUE(was_ended(client));
  EXPECT_EQ(opened(), 1) << "the client may still send";
  say(client, "more");
  end_side(client);
  pass(50ms);
  EXPECT_TRUE(server.heard.ends_with("more"));
  EXPECT_TRUE(was_ended(server));
  EXPECT_EQ(opened(), 0);
  EXPECT_EQ(reading("sluice_upstream_tunnels_total"), 1);
  EXPECT_EQ(reading("sluice_upstream_connections"), 0) << "it carries no other request";
  EXPECT_EQ(reading("sluice_upstream_failures_total"), 0);
}

TEST_F(TunnelTest, AnotherAnswerIsAResponse) {
  start();
  End& client = ask(websocket_request + "GET /next HTTP/1.1\r\nHost: b\r\n\r\n");
  End& server = accepted();
  EXPECT_EQ(server.heard.find("/next"), std::string::npos);
  server.heard.clear();
  say(server, "HTTP/1.1 403 Forbidden\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nno");
  pass(50ms);
  EXPECT_TRUE(client.heard.starts_with("HTTP/1.1 403 Forbidden\r\n"));
  EXPECT_TRUE(client.heard.ends_with("\r\n\r\nno"));
  EXPECT_TRUE(server.heard.starts_with("GET /next HTTP/1.1\r\nHost: b\r\n")) << "it came by the routes and policies";
  EXPECT_EQ(server.heard.find("Upgrade"), std::string::npos);
  say(server, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext");
  pass(50ms);
  EXPECT_TRUE(client.heard.ends_with("\r\n\r\nnext"));
  EXPECT_EQ(reading("sluice_upstream_tunnels_total"), 0);
}

TEST_F(TunnelTest, AnAnswerThatDoesNotFitIsNone) {
  start();
  const std::string upgrade = "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: ";
  const std::string accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
  const std::string no_key = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
  const std::string two_keys = websocket_request.substr(0, websocket_request.size() - 2) +
                               "Sec-WebSocket-Key: " + std::string(client_key) + "\r\n\r\n";
  const std::pair<std::string, std::string> cases[] = {
      {websocket_request, websocket_response("another")},
      {websocket_request, upgrade + "websocket\r\n\r\n"},
      {websocket_request, upgrade + "websocket\r\n" + accept + accept + "\r\n"},
      {websocket_request, upgrade + "echo/2\r\n" + accept + "\r\n"},
      {websocket_request, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\n" + accept + "\r\n"},
      {no_key, websocket_response()},
      {two_keys, websocket_response()},
      {echo_request, upgrade + "echo\r\n\r\n"},
      {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", echo_response},
  };
  for (const auto& [request, response] : cases) {
    End& client = ask(request);
    End& server = accepted();
    say(server, response + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ninner");
    pass(50ms);
    EXPECT_TRUE(client.heard.starts_with("HTTP/1.1 502 ")) << request << response << client.heard;
    EXPECT_EQ(client.heard.find("inner"), std::string::npos);
    EXPECT_TRUE(was_ended(server) || was_cut(server));
  }
  EXPECT_EQ(reading("sluice_upstream_tunnels_total"), 0);
  EXPECT_EQ(reading("sluice_upstream_failures_total"), std::size(cases));
}

TEST_F(TunnelTest, RequestsDoNotHideInTunnels) {
  start();
  for (const char* const protocols : {"h2c", "websocket, h2c", "H2C", "HTTP/2.0", "TLS/1.2", "h2"}) {
    End& client =
        ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + std::string(protocols) +
            "\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n");
    End& server = accepted();
    for (const char* const name : {"Upgrade", "HTTP2", "Connection"}) {
      EXPECT_EQ(server.heard.find(name), std::string::npos) << protocols;
    }
    say(server, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    pass(50ms);
    EXPECT_TRUE(client.heard.starts_with("HTTP/1.1 204 ")) << protocols;
    leave(server);
  }
}

TEST_F(TunnelTest, SilenceEndsIt) {
  options_.tunnel_timeout = 10s;
  options_.idle_timeout = 2s;
  start();
  const auto [client, server] = open();
  for (int i = 0; i < 4; ++i) {
    pass(9s);
    say(i % 2 == 0 ? *client : *server, "x");
    pass(100ms);
    EXPECT_EQ(opened(), 1);
  }
  pass(9800ms);
  EXPECT_EQ(opened(), 1);
  pass(300ms);
  EXPECT_EQ(opened(), 0);
  EXPECT_TRUE(was_cut(*client) && was_cut(*server));

  const auto [ended, talks] = open();
  end_side(*ended);
  pass(1s);
  EXPECT_TRUE(was_ended(*talks));
  say(*talks, "x");
  pass(1900ms);
  EXPECT_EQ(opened(), 1);
  EXPECT_EQ(ended->heard, "x");
  pass(200ms);
  EXPECT_EQ(opened(), 0);
  EXPECT_TRUE(was_cut(*ended));
}

TEST_F(TunnelTest, WhatIsLostIsLostOnBothSides) {
  start();
  const auto [client, server] = open();
  leave(*server);
  pass(50ms);
  EXPECT_TRUE(was_cut(*client));
  EXPECT_EQ(opened(), 0);
  const auto [vanishes, other] = open();
  leave(*vanishes);
  pass(50ms);
  EXPECT_TRUE(was_cut(*other));
  EXPECT_EQ(opened(), 0);
}

// In each direction, data is read from one side only as fast as the other side takes it.
TEST_F(TunnelTest, ASlowReaderHoldsLittle) {
  start();
  constexpr std::size_t size = 4 << 20;
  const std::string bytes(size, 'x');
  for (const bool client_is_slow : {true, false}) {
    const auto [client, server] = open();
    End& slow = client_is_slow ? *client : *server;
    End& fast = client_is_slow ? *server : *client;
    slow.tasks.cancel();
    const std::uint64_t before = fast.stream.handle().sent;
    say(fast, bytes);
    pass(10s);
    const core::Handle& handle = fast.stream.handle();
    EXPECT_LE(handle.sent - before, 3 * core::Faults().buffer + Tunnel::most_bytes + 1024);
    say(slow, "the other way is free");
    pass(50ms);
    EXPECT_EQ(fast.heard, "the other way is free");
    slow.tasks.spawn(listen(slow));
    pass(30s);
    EXPECT_EQ(slow.heard.size(), size);
    EXPECT_TRUE(slow.heard == bytes);
    leave(*client);
    pass(50ms);
  }
}

class InBadWeather : public TunnelTest, public testing::WithParamInterface<int> {
 protected:
  InBadWeather() : TunnelTest(static_cast<std::uint64_t>(GetParam())) {}

  std::string bytes(std::size_t size) {
    std::string made(size, ' ');
    for (char& c : made) c = static_cast<char>((state_ = state_ * 6364136223846793005u + 1442695040888963407u) >> 56);
    return made;
  }
  std::uint64_t state_ = static_cast<std::uint64_t>(GetParam());
};

// All bytes arrive in order and each side ends after its last byte; or both sides are cut, and what has arrived is
// correct.
TEST_P(InBadWeather, BytesAreTheSame) {
  start();
  const auto [client, server] = open();
  const bool breaks = GetParam() % 3 == 0;
  reactor_.set_faults({.short_read = 0.2,
                       .short_write = 0.2,
                       .would_block = 0.2,
                       .split = 0.3,
                       .stall = 0.01,
                       .reset = breaks ? 0.005 : 0.0});
  const std::string up = bytes(300'000);
  const std::string down = bytes(200'000);
  const auto say_all = [](End& end, std::string all) -> Task<void> {
    co_await write(end, std::move(all));
    (void)co_await end.stream.end(1h);
  };
  client->tasks.spawn(say_all(*client, up));
  server->tasks.spawn(say_all(*server, down));
  pass(10min);
  EXPECT_TRUE(client->ended && server->ended);
  EXPECT_EQ(opened(), 0);
  const bool whole = was_ended(*client) && was_ended(*server);
  EXPECT_TRUE(whole || breaks);
  EXPECT_TRUE(whole ? server->heard == up : up.starts_with(server->heard));
  EXPECT_TRUE(whole ? client->heard == down : down.starts_with(client->heard));
}

INSTANTIATE_TEST_SUITE_P(, InBadWeather, testing::Range(1, 40));

TEST_F(TunnelTest, ItEndsWithItsRoute) {
  start();
  const auto [client, server] = open();
  const int another = 0;
  const Instant now = reactor_.now();
  upstream_->tunnels.cut(now + 1s, [&](const Tunnel& one) { return one.route() == &another; });
  upstream_->tunnels.cut(now + 5s, [&](const Tunnel& one) { return one.route() == route_.get(); });
  say(*client, "still");
  pass(4s);
  EXPECT_EQ(server->heard, "still");
  EXPECT_EQ(opened(), 1);
  pass(1100ms);
  EXPECT_TRUE(was_cut(*client) && was_cut(*server));
  EXPECT_EQ(opened(), 0);
}

TEST_F(TunnelTest, TheServerWaitsForItAsLongAsItMay) {
  start();
  const auto [client, server] = open();
  front_->drain();
  pass(1s);
  say(*server, "x");
  pass(50ms);
  EXPECT_EQ(client->heard, "x");
  EXPECT_FALSE(front_->drained());
  front_->cut();
  pass(50ms);
  EXPECT_TRUE(client->ended && server->ended);
  EXPECT_EQ(opened(), 0);
}

}  // namespace
}  // namespace sluice::gateway
