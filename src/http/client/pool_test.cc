#include "http/client/pool.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/run_to_end.h"
#include "core/simulated_reactor.h"
#include "core/sleep.h"
#include "http/server.h"
#include "net/dns_server_for_tests.h"
#include "net/tls/test_certificates.h"

namespace sluice::http::client {
namespace {

using core::Async;
using core::Task;

// Answers with the path of the request.
class Echo final : public Handler {
 public:
  Async<Response> handle(Exchange& exchange) override {
    Request& request = exchange.request;
    Response response;
    Buffer body;
    body.append(request.path);
    response.body = std::move(body);
    return response;
  }
};

class ClientPool : public testing::Test {
 protected:
  ClientPool() { start({}); }

  void start(ServerOptions options) {
    server_.emplace(reactor_, handler_, options);
    address_ = *server_->listen(*core::Address::parse("127.0.0.1:0"));
  }
  void make_pool(PoolOptions options = {}) {
    pool_.emplace(reactor_, mailbox_, nullptr, Origin{"127.0.0.1", address_.port()}, options);
  }
  // Issues the certificates for the TLS servers and clients of these tests.
  static const net::tls::testing::Authority& authority() {
    static const net::tls::testing::Authority made;
    return made;
  }
  void start_secure(const net::tls::CertificateFiles& files,
                    net::tls::ClientCertificate client = net::tls::ClientCertificate::off) {
    const auto context = net::tls::ServerContext::make({.certificates = {files},
                                                        .client_certificate = client,
                                                        .client_ca = authority().file(),
                                                        .alpn = {"h2", "http/1.1"}});
    ASSERT_TRUE(context);
    server_.emplace(reactor_, handler_, ServerOptions{});
    server_->set_tls(*context, net::tls::TicketKeys::make());
    address_ = *server_->listen(*core::Address::parse("127.0.0.1:0"), true);
  }
  void make_secure_pool(net::tls::ClientOptions options = {}, std::string name = "") {
    if (options.ca_file.empty()) options.ca_file = authority().file();
    options.alpn = {"http/1.1"};
    const auto context = net::tls::ClientContext::make(options);
    ASSERT_TRUE(context);
    PoolOptions pool;
    pool.tls = *context;
    pool.tls_name = std::move(name);
    pool_.emplace(reactor_, mailbox_, nullptr, Origin{"127.0.0.1", address_.port(), true}, pool);
  }
  Task<void> ask(std::string& answer, Duration pause, Pool::Which which) {
    auto lease = co_await pool_->take(which);
    if (!lease) {
      answer = "error " + pool_->describe(lease.error());
      co_return;
    }
    const auto head = co_await (*lease)->ask({.target = "/a", .host = "a"}, nullptr);
    EXPECT_TRUE(head);
    Buffer body;
    while (head) {
      const auto progress = co_await (*lease)->read(body);
      EXPECT_TRUE(progress);
      if (!progress || *progress == BodySource::Progress::done) break;
    }
    answer = body.view();
    if (lease->was_used()) answer += " again";
    co_await core::Sleep(reactor_, reactor_.now() + pause);
  }
  std::string ask(Pool::Which which = Pool::Which::any) {
    std::string answer;
    tasks_.spawn(ask(answer, Duration{}, which));
    pass(50ms);
    return answer;
  }
  void ask_many(int count) {
    std::vector<std::string> answers(static_cast<std::size_t>(count));
    for (std::string& answer : answers) tasks_.spawn(ask(answer, 20ms, Pool::Which::any));
    pass(10ms);
    EXPECT_EQ(pool_->lent(), answers.size());
    pass(50ms);
    EXPECT_EQ(pool_->lent(), 0u);
  }
  void pass(Duration time) {
    const Instant until = reactor_.now() + time;
    while (reactor_.now() < until && !reactor_.deadlocked()) reactor_.turn(until);
  }

  core::SimulatedReactor reactor_{7};
  core::Mailbox mailbox_{reactor_};
  Echo handler_;
  std::optional<Server> server_;
  core::Address address_;
  std::optional<Pool> pool_;
  core::TaskGroup tasks_;
};

TEST_F(ClientPool, UsesAConnectionAgain) {
  make_pool();
  EXPECT_EQ(ask(), "/a");
  EXPECT_EQ(ask(), "/a again");
  EXPECT_EQ(ask(), "/a again");
  EXPECT_EQ(pool_->counters().opened, 1u);
  EXPECT_EQ(pool_->counters().reused, 2u);
  EXPECT_EQ(ask(Pool::Which::fresh), "/a");
  EXPECT_EQ(pool_->counters().opened, 2u);
  EXPECT_EQ(pool_->idle(), 2u);
}

TEST_F(ClientPool, KeepsNoMoreThanItMay) {
  make_pool({.idle = 3});
  ask_many(10);
  EXPECT_EQ(pool_->counters().opened, 10u);
  EXPECT_EQ(pool_->idle(), 3u);
  EXPECT_EQ(server_->counters().open, 3u);
  make_pool({.idle = 0});
  EXPECT_EQ(ask(), "/a");
  EXPECT_EQ(pool_->idle(), 0u);
}

TEST_F(ClientPool, KeepsThemNoLongerThanItMay) {
  make_pool({.idle_time = 10s, .age = 15s});
  EXPECT_EQ(ask(), "/a");
  pass(9s);
  EXPECT_EQ(ask(), "/a again");
  pass(4s);
  EXPECT_EQ(ask(), "/a again");
  pass(3s);
  EXPECT_EQ(pool_->idle(), 0u) << "it is too old";
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(ask(), "/a");
  pass(11s);
  EXPECT_EQ(pool_->idle(), 0u) << "it has not been used for long";
}

TEST_F(ClientPool, NoticesThatTheServerHasClosed) {
  make_pool();
  ask_many(5);
  EXPECT_EQ(pool_->idle(), 5u);
  server_->drain();
  pass(50ms);
  EXPECT_EQ(pool_->idle(), 0u);
  EXPECT_TRUE(ask().starts_with("error "));
  EXPECT_EQ(pool_->counters().open_failures, 1u);
  EXPECT_EQ(pool_->lent(), 0u);
}

TEST_F(ClientPool, ANameLeadsNowhereWithoutAResolver) {
  pool_.emplace(reactor_, mailbox_, nullptr, Origin{"a.example", 80}, PoolOptions{});
  EXPECT_EQ(ask(), "error " + (Error{Errc::system, EHOSTUNREACH}).text());
}

Task<bool> is_reached(Pool& pool) { co_return (co_await pool.take(Pool::Which::fresh)).has_value(); }

TEST(ClientPoolByName, EveryAddressIsTried) {
  const std::vector<std::string> addresses = {"127.0.0.2", "127.0.0.3", "127.0.0.4"};
  net::testing::DnsServer dns;
  dns.set("all.example", {.addresses = addresses});
  const auto reactor = core::make_epoll_reactor();
  core::Mailbox mailbox(*reactor);
  net::Resolver resolver({.servers = dns.text(), .timeout = 30s, .tries = 1});
  Echo handler;
  for (const std::string& one : addresses) {
    Server server(*reactor, handler, {});
    const auto bound = server.listen(*core::Address::from_ip(one, 0));
    ASSERT_TRUE(bound);
    Pool pool(*reactor, mailbox, &resolver, Origin{"all.example.", bound->port()}, {.connect_timeout = 1h});
    EXPECT_TRUE(core::run_to_end(*reactor, &mailbox, is_reached(pool))) << one;
  }
}

TEST_F(ClientPool, SpeaksTls) {
  start_secure(authority().issue("good", {.names = {"127.0.0.1"}}));
  make_secure_pool();
  EXPECT_EQ(ask(), "/a");
  EXPECT_EQ(ask(), "/a again");
  EXPECT_EQ(pool_->counters().tls_resumed, 0u);
  EXPECT_EQ(ask(Pool::Which::fresh), "/a");
  EXPECT_EQ(pool_->counters().tls_resumed, 1u);
  pool_.reset();
  pass(50ms);
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(server_->counters().tls.handshakes, 2u);
}

TEST_F(ClientPool, TrustsOnlyTheServerThatItKnows) {
  const net::tls::testing::Authority stranger;
  const auto expired = authority().issue("expired", {.names = {"127.0.0.1"}, .from_s = -7200, .until_s = -3600});
  const auto other = authority().issue("other", {.names = {"other.example"}});
  const auto unknown = stranger.issue("unknown", {.names = {"127.0.0.1"}});
  using Verify = net::tls::ClientOptions::Verify;
  for (const auto& [files, why] : {std::pair(expired, "certificate has expired"),
                                   {other, "IP address mismatch"},
                                   {unknown, "self-signed certificate in certificate chain"}}) {
    start_secure(files);
    make_secure_pool();
    const std::string answer = ask();
    EXPECT_TRUE(answer.starts_with("error TLS: ") && answer.contains(why)) << answer;
    EXPECT_EQ(pool_->counters().open_failures, 1u);
    make_secure_pool({.verify = Verify::none});
    EXPECT_EQ(ask(), "/a") << why;
    pool_.reset();
  }
  start_secure(other);
  make_secure_pool({}, "other.example");
  EXPECT_EQ(ask(), "/a");
  make_secure_pool({}, "another.example");
  EXPECT_TRUE(ask().contains("hostname mismatch"));
  pool_.reset();

  start({});
  make_secure_pool();
  EXPECT_TRUE(ask().starts_with("error TLS: ")) << "the server speaks none";
  pool_.reset();
}

TEST_F(ClientPool, ShowsACertificate) {
  const auto own = authority().issue("own", {.names = {"client"}});
  start_secure(authority().issue("asks", {.names = {"127.0.0.1"}}), net::tls::ClientCertificate::require);
  make_secure_pool({.certificate = own.certificate, .key = own.key});
  EXPECT_EQ(ask(), "/a");
  pool_.reset();
}

// connect_timeout also bounds the TLS handshake.
TEST_F(ClientPool, AHandshakeMayNotTakeLong) {
  net::Stream silent(reactor_);
  ASSERT_TRUE(reactor_.listen(silent.handle(), *core::Address::parse("127.0.0.1:0"), {}));
  address_ = *reactor_.local_address(silent.handle());
  make_secure_pool();
  std::string answer;
  tasks_.spawn(ask(answer, Duration{}, Pool::Which::any));
  pass(4900ms);
  EXPECT_EQ(answer, "");
  pass(200ms);
  EXPECT_EQ(answer, "error " + Error{Errc::timed_out}.text());
}

TEST_F(ClientPool, ConnectsToAUnixSocket) {
  server_.emplace(reactor_, handler_, ServerOptions{});
  ASSERT_TRUE(server_->listen(*core::Address::parse("unix:/run/app.sock")));
  pool_.emplace(reactor_, mailbox_, nullptr, Origin{.host = {}, .path = "/run/app.sock"}, PoolOptions{});
  EXPECT_EQ(ask(), "/a");
  EXPECT_EQ(ask(), "/a again");
  pool_.emplace(reactor_, mailbox_, nullptr, Origin{.host = {}, .path = "/run/none.sock"}, PoolOptions{});
  EXPECT_TRUE(ask().starts_with("error "));
}

// A cancelled task releases its lease.
TEST_F(ClientPool, ALeaseEndsWithWhoeverHasIt) {
  make_pool();
  std::string answer;
  tasks_.spawn(ask(answer, 1h, Pool::Which::any));
  pass(10ms);
  EXPECT_EQ(pool_->lent(), 1u);
  tasks_.cancel();
  EXPECT_EQ(pool_->lent(), 0u);
  EXPECT_EQ(pool_->idle(), 1u);
  std::string none;
  tasks_.spawn(ask(none, 1h, Pool::Which::fresh));
  tasks_.cancel();
  EXPECT_EQ(pool_->lent(), 0u);
}

}  // namespace
}  // namespace sluice::http::client
