#include "sql/postgres/session_start.h"

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "core/mailbox.h"
#include "net/dns_server_for_tests.h"
#include "net/resolver.h"
#include "net/tls/test_certificates.h"
#include "sql/postgres/messages.h"

namespace sluice::sql::postgres {
namespace {

using namespace std::string_literals;
using core::Task;

std::string u32(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}
std::string message(char type, const std::string& payload) {
  return type + u32(static_cast<std::uint32_t>(payload.size() + 4)) + payload;
}
std::string fatal(const std::string& sqlstate, const std::string& text) {
  return message('E', "SFATAL\0VFATAL\0C"s + sqlstate + "\0M"s + text + "\0\0"s);
}
std::string authentication(std::uint32_t code, const std::string& data = "") { return message('R', u32(code) + data); }
const std::string started = authentication(0) + message('K', u32(1) + u32(2)) + message('Z', "I");
const std::string ssl_request = u32(8) + u32(80877103);

const net::tls::testing::Authority& authority() {
  static const net::tls::testing::Authority made;
  return made;
}
const std::shared_ptr<const net::tls::ServerContext>& server_context() {
  static const auto made =
      *net::tls::ServerContext::make({.certificates = {authority().issue("localhost")}, .alpn = {"postgresql"}});
  return made;
}

// The steps of a server on one connection. It waits for bytes before each step.
struct Tls {};  // answers 'S' and does the handshake
struct Close {};
using Step = std::variant<std::string, Tls, Close>;  // a string is sent
using Script = std::vector<Step>;

class SessionStartTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(reactor->listen(listener, *core::Address::parse("127.0.0.1:0"), {}));
    options.addresses = {*reactor->local_address(listener)};
    options.host = "localhost";
    options.user = options.database = "u";
    options.password = "secret";
    options.connect_timeout_ms = 20'000;
    use_tls(SslMode::prefer, net::tls::ClientOptions::Verify::none);
  }
  void TearDown() override {
    tasks.cancel();
    reactor->close(listener);
  }
  void use_tls(SslMode mode, net::tls::ClientOptions::Verify verify) {
    options.ssl_mode = mode;
    options.tls =
        *net::tls::ClientContext::make({.verify = verify, .ca_file = authority().file(), .alpn = {"postgresql"}});
  }

  // Returns the error; empty: success. Each connection has its script; a connection without one fails the test.
  std::string start(std::vector<Script> scripts) {
    received.clear();
    accepted = 0;
    failure = {};
    bool done = false;
    std::string why;
    std::vector<std::unique_ptr<net::Stream>> streams;
    core::TaskGroup serving;
    tasks.spawn([](SessionStartTest& test, std::string& into, bool& finished) -> Task<void> {
      net::Stream stream(*test.reactor);
      Buffer in;
      SessionStart session(test.options, test.client_tls, stream, in);
      const bool opened = co_await session.run(0);
      test.over_tls = stream.tls() != nullptr;
      test.failure = session.failure();
      if (!opened) into = test.failure.message.empty() ? "no reason is given" : test.failure.message;
      if (opened) EXPECT_EQ(session.key().secret, 2u);
      finished = true;
    }(*this, why, done));
    const Instant end = reactor->now() + 30s;
    while (!done && reactor->now() < end) {
      reactor->turn(reactor->now() + 1ms);
      mailbox.deliver();
      auto stream = std::make_unique<net::Stream>(*reactor);
      const auto got = reactor->accept(listener, stream->handle(), nullptr);
      if (!got || !stream->open()) continue;
      if (accepted == scripts.size()) {
        ADD_FAILURE() << "one connection too many";
        break;
      }
      streams.push_back(std::move(stream));
      serving.spawn(serve(*streams.back(), scripts[accepted++]));
    }
    EXPECT_TRUE(done) << "it does not end";
    EXPECT_EQ(accepted, scripts.size());
    tasks.cancel();
    return why;
  }

  Task<void> serve(net::Stream& stream, const Script& script) {
    for (const Step& step : script) {
      Buffer bytes;
      const auto got = co_await stream.read(bytes, 65536, reactor->now() + 20s);
      if (!got || *got == 0) co_return;
      received += bytes.view();
      std::string answer = "S";
      if (const auto* text = std::get_if<std::string>(&step)) answer = *text;
      if (std::holds_alternative<Close>(step)) {
        stream.close();
        co_return;
      }
      iovec part{answer.data(), answer.size()};
      if (!co_await stream.write({&part, 1}, 20s)) co_return;
      if (!std::holds_alternative<Tls>(step)) continue;
      if (!co_await stream.accept_tls(server_context(), server_tls, reactor->now() + 20s)) co_return;
      EXPECT_EQ(stream.tls()->protocol(), "postgresql");
    }
    Buffer rest;
    while (co_await stream.readable(reactor->now() + 20s)) {
      const auto got = co_await stream.read(rest, 65536, reactor->now() + 20s);
      if (!got || *got == 0) co_return;
      received += rest.view();
      rest.clear();
    }
  }

  bool was_received(const std::string& text) const { return received.find(text) != received.npos; }

  std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  core::Mailbox mailbox{*reactor};
  core::Handle listener;
  net::tls::CoreState client_tls;
  net::tls::CoreState server_tls;
  Options options;
  std::string received;  // by all connections, decrypted
  std::size_t accepted = 0;
  bool over_tls = false;
  Error failure;
  core::TaskGroup tasks;
};

using Verify = net::tls::ClientOptions::Verify;
const std::string garbage = "this is no TLS record";

TEST_F(SessionStartTest, WithoutTlsNobodyAsksForIt) {
  options.ssl_mode = SslMode::disable;
  options.tls = nullptr;
  EXPECT_EQ(start({{started}}), "");
  EXPECT_FALSE(was_received(ssl_request));
}

TEST_F(SessionStartTest, PreferTakesWhatItGets) {
  EXPECT_EQ(start({{Tls(), started}}), "");
  EXPECT_TRUE(over_tls);
  EXPECT_TRUE(received.starts_with(ssl_request));
  EXPECT_EQ(start({{"N", started}}), "");
  EXPECT_FALSE(over_tls);
  EXPECT_EQ(start({{"S", garbage}, {started}}), "") << "the handshake fails: without TLS on another connection";
  EXPECT_FALSE(over_tls);
  EXPECT_EQ(start({{"S", Close()}, {started}}), "");
  EXPECT_EQ(start({{Tls(), fatal("28000", "not so")}, {started}}), "");
  EXPECT_FALSE(over_tls);
}

TEST_F(SessionStartTest, PreferDoesNotTryWithoutTlsWhatTlsDoesNotDecide) {
  EXPECT_EQ(start({{Tls(), fatal("28P01", "wrong password")}}), "wrong password");
  EXPECT_EQ(start({{"N", fatal("28000", "not so")}}), "not so");
  EXPECT_EQ(start({{Tls(), fatal("28000", "not so")}, {fatal("28P01", "nor so")}}), "not so; without TLS: nor so");
  EXPECT_EQ(failure.sqlstate, "28P01");
}

TEST_F(SessionStartTest, AllowTakesTlsOnlyWhereItMust) {
  use_tls(SslMode::allow, Verify::none);
  EXPECT_EQ(start({{started}}), "");
  EXPECT_FALSE(was_received(ssl_request));
  EXPECT_EQ(start({{fatal("28000", "not so")}, {Tls(), started}}), "");
  EXPECT_TRUE(over_tls);
  EXPECT_EQ(start({{fatal("28000", "not so")}, {"N"}}), "not so; over TLS: the server does not support TLS");
  EXPECT_EQ(start({{fatal("28P01", "wrong password")}}), "wrong password");
}

TEST_F(SessionStartTest, WhatDemandsTlsDoesNotDoWithout) {
  for (const SslMode mode : {SslMode::require, SslMode::verify_ca, SslMode::verify_full}) {
    use_tls(mode, mode == SslMode::require ? Verify::none : mode == SslMode::verify_ca ? Verify::chain : Verify::full);
    EXPECT_EQ(start({{Tls(), started}}), "");
    EXPECT_TRUE(over_tls);
    EXPECT_TRUE(start({{"N"}}).starts_with("the server does not support TLS, but sslmode="));
    EXPECT_EQ(failure.sqlstate, "28000");
    EXPECT_FALSE(was_received("client_encoding"));
    EXPECT_NE(start({{"S", garbage}}), "");
    EXPECT_NE(start({{"S", Close()}}), "");
    EXPECT_EQ(start({{Tls(), fatal("28000", "not so")}}), "not so");
  }
}

TEST_F(SessionStartTest, TheCertificateIsLookedAt) {
  options.host = "elsewhere.example";
  use_tls(SslMode::verify_full, Verify::full);
  EXPECT_EQ(start({{Tls(), started}}),
            "TLS with \"elsewhere.example\": certificate verify failed: hostname mismatch (CN=localhost)");
  EXPECT_EQ(failure.sqlstate, "28000");
  EXPECT_FALSE(was_received("client_encoding")) << "nothing is sent to whoever it is";
  use_tls(SslMode::verify_ca, Verify::chain);
  EXPECT_EQ(start({{Tls(), started}}), "");
  const net::tls::testing::Authority other;
  options.tls = *net::tls::ClientContext::make({.verify = Verify::chain, .ca_file = other.file()});
  EXPECT_NE(start({{Tls(), started}}).find("certificate verify failed"), std::string::npos);
}

// CVE-2021-23222: bytes that follow the server's 'S', or replace it.
TEST_F(SessionStartTest, NothingIsTakenInTheClearBeforeTls) {
  for (const SslMode mode : {SslMode::prefer, SslMode::require}) {
    use_tls(mode, Verify::none);
    EXPECT_EQ(start({{"S" + started}}), "the server sent data in the clear behind its answer to the request for TLS");
    EXPECT_NE(start({{"N" + started}}), "");
    EXPECT_NE(start({{"SS"}}), "");
    EXPECT_EQ(start({{fatal("08006", "believe me")}}), "the server answered the request for TLS with an error");
    EXPECT_EQ(start({{"E"}}), "the server answered the request for TLS with an error");
    EXPECT_EQ(start({{"G"}}), "the server does not speak PostgreSQL's protocol");
    EXPECT_EQ(start({{Close()}}), "the server did not say whether it supports TLS: it closed the connection");
  }
  // The bytes come later, and are not a valid handshake.
  use_tls(SslMode::require, Verify::none);
  EXPECT_NE(start({{"S", started}}), "");
}

TEST_F(SessionStartTest, AServerThatSaysNothingHasUntilTheDeadline) {
  options.connect_timeout_ms = 150;
  use_tls(SslMode::require, Verify::none);
  const std::string timed_out = sluice::Error{.code = Errc::timed_out}.text();
  EXPECT_EQ(start({Script()}), "the server did not say whether it supports TLS: " + timed_out);
  EXPECT_EQ(start({{"S"}}), "TLS with \"localhost\": " + timed_out);
  use_tls(SslMode::prefer, Verify::none);
  EXPECT_NE(start({{"S"}}), "") << "no time is left to try without TLS";
}

TEST_F(SessionStartTest, ThePasswordInTheClearIsForVerifiedServersOnly) {
  const std::string asks = authentication(3);
  use_tls(SslMode::verify_full, Verify::full);
  EXPECT_EQ(start({{Tls(), asks, started}}), "");
  EXPECT_TRUE(was_received("secret"));
  use_tls(SslMode::verify_ca, Verify::chain);
  EXPECT_EQ(start({{Tls(), asks, started}}), "");
  use_tls(SslMode::require, Verify::none);
  EXPECT_NE(start({{Tls(), asks, started}}).find("password in the clear"), std::string::npos);
  EXPECT_FALSE(was_received("secret"));
  use_tls(SslMode::prefer, Verify::none);
  EXPECT_NE(start({{"N", asks, started}}).find("password in the clear"), std::string::npos);
  EXPECT_NE(start({{Tls(), asks, started}}).find("password in the clear"), std::string::npos);
  EXPECT_FALSE(was_received("secret"));
}

// Each session resolves the name again, as a failover by DNS requires.
TEST_F(SessionStartTest, GoesWhereTheNameLeadsNow) {
  net::testing::DnsServer dns;
  std::atomic<Instant> clock = Instant(1h);
  net::Resolver resolver({.servers = dns.text(), .timeout = 30s, .clock = [&clock] { return clock.load(); }});
  use_tls(SslMode::disable, net::tls::ClientOptions::Verify::none);
  const std::uint16_t port = options.addresses[0].port();
  // No server listens there.
  const auto nobody = [port](const std::string& ip) { return *core::Address::from_ip(ip, port); };
  options.addresses = {nobody("127.0.0.2")};
  options.host = "db.example.";
  options.resolver = &resolver;
  options.mailbox = &mailbox;
  const auto lead_to = [&](net::testing::DnsServer::Record record) {
    clock = clock.load() + 1h;
    dns.set("db.example", std::move(record));
  };
  lead_to({.addresses = {"127.0.0.1"}});
  EXPECT_EQ(start({{started}}), "");
  lead_to({.addresses = {"127.0.0.3", "127.0.0.1"}});
  EXPECT_EQ(start({{started}}), "") << "all addresses are tried";
  lead_to({.addresses = {"127.0.0.3"}});
  EXPECT_EQ(start({}), "cannot connect to " + nobody("127.0.0.3").text() + ": Connection refused");
  // If resolving fails, the URL's addresses are used, and the message says so.
  lead_to({.code = 3});
  EXPECT_EQ(start({}), "cannot connect to " + nobody("127.0.0.2").text() +
                           ": Connection refused; the host \"db.example.\" cannot be resolved: Domain name not found");
  options.addresses = {*reactor->local_address(listener)};
  EXPECT_EQ(start({{started}}), "");
}

TEST_F(SessionStartTest, SaysOfTheChannelWhatIsTrue) {
  const std::string plain = authentication(10, "SCRAM-SHA-256\0\0"s);
  const std::string both = authentication(10, "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"s);
  const std::string no = fatal("28P01", "no");
  EXPECT_EQ(start({{Tls(), both, no}}), "no");
  EXPECT_TRUE(was_received("SCRAM-SHA-256-PLUS\0"s)) << received;
  EXPECT_TRUE(was_received("p=tls-server-end-point,,n=,r="));
  EXPECT_EQ(start({{Tls(), plain, no}}), "no");
  EXPECT_TRUE(was_received("y,,n=,r=")) << "so that a server that has offered it notices";
  EXPECT_EQ(start({{"N", plain, no}}), "no");
  EXPECT_TRUE(was_received("n,,n=,r="));
  EXPECT_EQ(start({{"N", both, no}}), "no");
  EXPECT_TRUE(was_received("n,,n=,r="));
  options.channel_binding = ChannelBinding::disable;
  EXPECT_EQ(start({{Tls(), both, no}}), "no");
  EXPECT_TRUE(was_received("n,,n=,r="));
}

TEST_F(SessionStartTest, DemandedChannelBindingIsNotDoneWithout) {
  options.channel_binding = ChannelBinding::require;
  const std::string both = authentication(10, "SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0"s);
  EXPECT_EQ(start({{Tls(), both, fatal("28P01", "no")}}), "no");
  for (const Script& script : std::vector<Script>{
           {Tls(), authentication(10, "SCRAM-SHA-256\0\0"s)},
           {"N", both},
           {Tls(), started},
           {Tls(), authentication(5, "salt")},
           {Tls(), authentication(3)},
       }) {
    EXPECT_NE(start({script}).find("channel_binding=require"), std::string::npos);
    EXPECT_FALSE(was_received("md5")) << "nothing of the password";
  }
  // A server that changes the authentication method.
  for (const std::string& turn : {authentication(5, "salt"), authentication(3), authentication(0)}) {
    EXPECT_NE(start({{Tls(), both, turn}}), "");
    EXPECT_FALSE(was_received("md5") || was_received("secret"));
  }
}

}  // namespace
}  // namespace sluice::sql::postgres
