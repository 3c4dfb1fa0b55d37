#include "net/tls/session.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include "core/back_ends_for_tests.h"
#include "core/simulated_reactor.h"
#include "net/stream.h"
#include "net/tls/test_certificates.h"

namespace sluice::net {
namespace {

using core::Task;
using core::TaskGroup;
using tls::ClientContext;
using tls::ClientOptions;
using tls::Failure;
using tls::ServerContext;
using tls::ServerOptions;

constexpr Duration patience = 20s;

const tls::testing::Authority& authority() {
  static const tls::testing::Authority made;
  return made;
}
const tls::CertificateFiles& localhost() {
  static const tls::CertificateFiles made = authority().issue("localhost", {.names = {"localhost", "127.0.0.1"}});
  return made;
}
std::shared_ptr<const ServerContext> server_context(ServerOptions options = {}) {
  if (options.certificates.empty()) options.certificates.push_back(localhost());
  auto made = ServerContext::make(options);
  EXPECT_TRUE(made) << (made ? "" : made.error().text);
  return made ? *made : nullptr;
}
std::shared_ptr<const ClientContext> client_context(ClientOptions options = {}) {
  if (options.ca_file.empty()) options.ca_file = authority().file();
  auto made = ClientContext::make(options);
  EXPECT_TRUE(made) << (made ? "" : made.error().text);
  return made ? *made : nullptr;
}

// A listener and the two ends of one connection.
class Pair {
 public:
  explicit Pair(std::unique_ptr<core::Reactor> with) : reactor(std::move(with)), server(*reactor), client(*reactor) {
    EXPECT_TRUE(reactor->listen(listener_, *core::Address::parse("127.0.0.1:0"), {}));
    const core::Address address = *reactor->local_address(listener_);
    bool done = false;
    tasks.spawn([](Pair& pair, core::Address to, bool& finished) -> Task<void> {
      EXPECT_TRUE(co_await pair.client.connect(to, pair.later()));
      finished = true;
    }(*this, address, done));
    for (int i = 0; i < 1000 && !(done && server.open()); ++i) {
      reactor->turn(reactor->now() + 1ms);
      if (!server.open()) EXPECT_TRUE(reactor->accept(listener_, server.handle(), nullptr));
    }
    EXPECT_TRUE(done && server.open());
  }
  ~Pair() {
    tasks.cancel();
    client.close();
    server.close();
    reactor->close(listener_);
  }

  [[nodiscard]] Instant later() const { return reactor->now() + patience; }
  void run(const std::function<bool()>& done) {
    const Instant end = reactor->now() + 3 * patience;
    while (!done() && reactor->now() < end) reactor->turn(reactor->now() + 10ms);
    EXPECT_TRUE(done()) << "the loop did not finish";
  }

  struct Outcome {
    bool done = false;
    Result<void> result;
  };
  Task<void> accept(std::shared_ptr<const ServerContext> context, Outcome& outcome) {
    outcome.result = co_await server.accept_tls(std::move(context), server_core, later());
    outcome.done = true;
  }
  Task<void> connect(std::shared_ptr<const ClientContext> context, std::string host, Outcome& outcome) {
    outcome.result = co_await client.connect_tls(std::move(context), host, client_core, later(), resumption);
    outcome.done = true;
  }
  // Runs both handshakes to their end. In TLS 1.3 the client is done before the server has checked its certificate.
  void shake_hands(std::shared_ptr<const ServerContext> for_server, std::shared_ptr<const ClientContext> for_client,
                   const std::string& host = "localhost") {
    accepted = connected = {};
    tasks.spawn(accept(std::move(for_server), accepted));
    tasks.spawn(connect(std::move(for_client), host, connected));
    run([this] { return accepted.done && connected.done; });
  }
  // Shakes hands and expects it to work.
  void establish(std::shared_ptr<const ServerContext> for_server = server_context(),
                 std::shared_ptr<const ClientContext> for_client = client_context()) {
    shake_hands(std::move(for_server), std::move(for_client));
    EXPECT_TRUE(accepted.result) << server.tls()->failure_text();
    EXPECT_TRUE(connected.result) << client.tls()->failure_text();
  }
  Result<std::string> read(Stream& from) {
    bool done = false;
    Result<std::string> result;
    tasks.spawn([](Pair& pair, Stream& stream, Result<std::string>& into, bool& finished) -> Task<void> {
      Buffer bytes;
      const auto got = co_await stream.read(bytes, 100'000, pair.later());
      if (got) {
        into = std::string(bytes.view());
      } else {
        into = std::unexpected(got.error());
      }
      finished = true;
    }(*this, from, result, done));
    run([&] { return done; });
    return result;
  }
  Result<void> write(Stream& to, std::string bytes) {
    bool done = false;
    Result<void> result;
    tasks.spawn([](Stream& stream, std::string text, Result<void>& into, bool& finished) -> Task<void> {
      iovec part{text.data(), text.size()};
      into = co_await stream.write({&part, 1}, patience);
      finished = true;
    }(to, std::move(bytes), result, done));
    run([&] { return done; });
    return result;
  }
  Result<void> end(Stream& of) {
    bool done = false;
    Result<void> result;
    tasks.spawn([](Stream& stream, Result<void>& into, bool& finished) -> Task<void> {
      into = co_await stream.end(patience);
      finished = true;
    }(of, result, done));
    run([&] { return done; });
    return result;
  }

  std::unique_ptr<core::Reactor> reactor;
  tls::CoreState server_core;
  tls::CoreState client_core;
  tls::Resumption* resumption = nullptr;
  Stream server;
  Stream client;
  TaskGroup tasks;
  Outcome accepted;
  Outcome connected;

 private:
  core::Handle listener_;
};

std::unique_ptr<core::Reactor> simulated() { return std::make_unique<core::SimulatedReactor>(1); }

class TlsStream : public core::OnReactor {
 protected:
  Pair pair{GetParam().make()};
};

TEST_P(TlsStream, BytesArriveBothWays) {
  pair.establish();
  EXPECT_EQ(pair.client.tls()->version(), "TLSv1.3");
  EXPECT_TRUE(pair.write(pair.client, "ping"));
  EXPECT_EQ(pair.read(pair.server), "ping");
  EXPECT_TRUE(pair.write(pair.server, "pong"));
  EXPECT_EQ(pair.read(pair.client), "pong");
  EXPECT_TRUE(pair.end(pair.client));
  EXPECT_EQ(pair.read(pair.server), "");
  EXPECT_EQ(pair.read(pair.server), "") << "the end stays";
  EXPECT_TRUE(pair.write(pair.server, "still")) << "a peer that has ended its side still reads";
  EXPECT_EQ(pair.read(pair.client), "still");
  EXPECT_TRUE(pair.end(pair.server));
  EXPECT_EQ(pair.read(pair.client), "");
}

TEST_P(TlsStream, MegabytesArriveWholeFromManyParts) {
  pair.establish();
  std::string sent(3'000'000, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>((i * 2654435761u) >> 13);
  bool written = false;
  bool finished = false;
  std::string received;
  pair.tasks.spawn([](Stream& stream, std::string& bytes, bool& done) -> Task<void> {
    std::vector<iovec> parts;
    std::size_t size = 1;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      size = parts.size() % 7 == 6 ? 200'000 : 1 + parts.size() * 977 % 40'000;
      if (parts.size() % 5 == 4) size = 3;
      size = std::min(size, bytes.size() - at);
      parts.push_back({bytes.data() + at, size});
      if (parts.size() % 9 == 8) parts.push_back({nullptr, 0});
    }
    EXPECT_TRUE(co_await stream.write(parts, patience));
    EXPECT_TRUE(co_await stream.end(patience));
    done = true;
  }(pair.server, sent, written));
  pair.tasks.spawn([](Pair& all, std::string& into, bool& done) -> Task<void> {
    Buffer bytes;
    for (;;) {
      const std::size_t most = into.size() % 2 == 0 ? 7001 : 70'001;
      const auto got = co_await all.client.read(bytes, most, all.later());
      EXPECT_TRUE(got);
      if (!got || *got == 0) break;
      EXPECT_LE(*got, most);
      into += bytes.view();
      bytes.clear();
    }
    done = true;
  }(pair, received, finished));
  pair.run([&] { return written && finished; });
  EXPECT_EQ(received.size(), sent.size());
  EXPECT_TRUE(received == sent);
}

// The calls of an owner that waits at the handle itself, with and without TLS.
TEST_P(TlsStream, AttemptsReturnAtOnceAndLoseNothing) {
  for (const bool with_tls : {false, true}) {
    Pair two(GetParam().make());
    if (with_tls) two.establish();
    EXPECT_EQ(two.client.has_unsent(), false);
    std::string sent(5'000'000, '\0');
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>((i * 2654435761u) >> 11);
    Buffer out;
    out.append(sent);
    std::string received;
    bool blocked = false;
    bool had_unsent = false;
    std::vector<char> room(300'000);
    two.run([&] {
      while ((!out.empty() || two.client.has_unsent()) && two.client.handle().may_write) {
        const core::Io io = two.client.try_write(out);
        EXPECT_TRUE(io.ok() || io.would_block());
        had_unsent |= two.client.has_unsent();
      }
      blocked |= !two.client.handle().may_write;  // nothing is read before the socket is full
      while (blocked && two.server.may_read()) {
        const core::Io io = two.server.try_read(room.data(), room.size());
        if (io.would_block()) break;
        EXPECT_TRUE(io.ok() && io.bytes != 0 && io.bytes <= room.size());
        if (!io.ok() || io.bytes == 0) return true;
        received.append(room.data(), io.bytes);
      }
      return received.size() >= sent.size();
    });
    EXPECT_TRUE(received == sent) << received.size();
    EXPECT_TRUE(blocked);
    EXPECT_EQ(had_unsent, with_tls);
    EXPECT_TRUE(out.empty() && !two.client.has_unsent());
  }
}

TEST_P(TlsStream, FilesArriveAndOneThatHasBecomeShorterIsAnError) {
  pair.establish();
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  std::string bytes(400'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
  std::fwrite(bytes.data(), 1, bytes.size(), file.get());
  std::fflush(file.get());
  std::string received;
  bool finished = false;
  pair.tasks.spawn([](Stream& stream, int fd) -> Task<void> {
    EXPECT_TRUE(co_await stream.send_file("head", fd, 7, 399'000, patience));
    EXPECT_EQ(co_await stream.send_file("", fd, 399'999, 2, patience), Result<void>(fail(Errc::closed, EPIPE)));
    stream.close();
  }(pair.server, ::fileno(file.get())));
  pair.tasks.spawn([](Pair& all, std::string& into, bool& done) -> Task<void> {
    Buffer data;
    for (;;) {
      const auto got = co_await all.client.read(data, 50'000, all.later());
      if (!got) EXPECT_EQ(got.error().code, Errc::closed) << "cut, and not ended";
      if (!got || *got == 0) {
        EXPECT_FALSE(got);
        break;
      }
      into += data.view();
      data.clear();
    }
    done = true;
  }(pair, received, finished));
  pair.run([&] { return finished; });
  EXPECT_TRUE(received == "head" + bytes.substr(7, 399'000) + bytes.substr(399'999)) << received.size();
}

TEST(TlsShares, ALongFileLeavesTheCoreToOthersAfterEachShare) {
  constexpr std::uint64_t share = Stream::SendFile::tls_share_bytes;
  constexpr std::uint64_t file_bytes = 7 * share / 2;
  constexpr std::uint64_t batch = (64 << 10) - 512;  // four records
  constexpr std::uint64_t batch_overhead = 4 * 22;   // header, type and tag of each (RFC 8446, 5.2)
  Pair pair(std::make_unique<core::SimulatedReactor>(6, core::Faults{.buffer = 64 << 20}));
  pair.establish();
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  ASSERT_EQ(::ftruncate(::fileno(file.get()), static_cast<off_t>(file_bytes)), 0);
  const std::uint64_t before = pair.server.handle().sent;
  bool done = false;
  pair.tasks.spawn([](Stream& stream, int fd, bool& finished) -> Task<void> {
    EXPECT_TRUE(co_await stream.send_file("", fd, 0, file_bytes, patience));
    finished = true;
  }(pair.server, ::fileno(file.get()), done));
  for (std::uint64_t turn = 1; turn <= 4; ++turn) {
    const std::uint64_t plain = std::min(turn * share, file_bytes);
    const std::uint64_t sent = pair.server.handle().sent - before;
    EXPECT_GT(sent, plain) << turn;
    EXPECT_LE(sent, plain + (plain / batch + 1) * batch_overhead) << turn;
    EXPECT_EQ(done, turn == 4);
    pair.reactor->turn(never);
  }
}

TEST_P(TlsStream, AConnectionThatJustEndsIsATruncation) {
  pair.establish();
  EXPECT_TRUE(pair.write(pair.client, "hello"));
  pair.reactor->shutdown_write(pair.client.handle());
  EXPECT_EQ(pair.read(pair.server), "hello");
  const auto ended = pair.read(pair.server);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Errc::closed);
  EXPECT_TRUE(pair.write(pair.server, "and yet")) << "what was under way still goes";
  EXPECT_EQ(pair.read(pair.client), "and yet");
}

TEST_P(TlsStream, GarbageIsAnErrorAndAnAlert) {
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\xff\xff"), std::string(100, '\0'), std::string(3000, 'x'),
        std::string("\x16\x03\x01\x00\x05hello"), std::string("\x80\x2e\x01\x00\x02")}) {
    Pair fresh(GetParam().make());
    fresh.tasks.spawn(fresh.accept(server_context(), fresh.accepted));
    EXPECT_TRUE(fresh.write(fresh.client, garbage));
    EXPECT_TRUE(fresh.end(fresh.client));
    fresh.run([&] { return fresh.accepted.done; });
    EXPECT_FALSE(fresh.accepted.result);
    EXPECT_NE(fresh.server.tls()->failure(), Failure::none);
    EXPECT_NE(fresh.server.tls()->failure(), Failure::plain_http);
    EXPECT_FALSE(fresh.server.tls()->failure_text().empty());
  }
}

TEST_P(TlsStream, HttpWithoutTlsIsToldApart) {
  pair.tasks.spawn(pair.accept(server_context(), pair.accepted));
  EXPECT_TRUE(pair.write(pair.client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  pair.run([&] { return pair.accepted.done; });
  EXPECT_EQ(pair.accepted.result, Result<void>(fail(Errc::malformed)));
  EXPECT_EQ(pair.server.tls()->failure(), Failure::plain_http);
  pair.server.drop_tls();
  EXPECT_TRUE(pair.write(pair.server, "HTTP/1.1 400 Bad Request"));
  std::string answer;
  while (answer.size() < 24) answer += pair.read(pair.client).value_or(std::string(24, '?'));
  EXPECT_EQ(answer, "HTTP/1.1 400 Bad Request");
}

TEST_P(TlsStream, BrokenRecordsEndTheConnection) {
  pair.establish();
  pair.client.drop_tls();
  EXPECT_TRUE(pair.write(pair.client, std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x')));
  auto got = pair.read(pair.server);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::malformed);
  EXPECT_EQ(pair.server.tls()->failure(), Failure::protocol);
  got = pair.read(pair.server);
  ASSERT_FALSE(got) << "an error stays";
  EXPECT_EQ(got.error().code, Errc::malformed);
}

// A rough network must differ from a smooth one only in the time that it takes.
INSTANTIATE_TEST_SUITE_P(BackEnds, TlsStream,
                         testing::Values(core::on_epoll, core::on_uring, core::TestedReactor{"simulated", simulated},
                                         core::TestedReactor{"simulated_rough",
                                                             []() -> std::unique_ptr<core::Reactor> {
                                                               return std::make_unique<core::SimulatedReactor>(
                                                                   2, core::Faults{.short_read = 0.3,
                                                                                   .short_write = 0.3,
                                                                                   .would_block = 0.3,
                                                                                   .split = 0.3,
                                                                                   .buffer = 5000});
                                                             }}),
                         core::name_of);

TEST(TlsHandshake, TheCertificateMustBeForTheHost) {
  for (const auto& [host, fits] : {std::pair{"localhost", true},
                                   {"127.0.0.1", true},
                                   {"LOCALHOST", true},
                                   {"example.org", false},
                                   {"127.0.0.2", false},
                                   {"", false}}) {
    Pair pair(simulated());
    pair.shake_hands(server_context(), client_context(), host);
    EXPECT_EQ(pair.connected.result.has_value(), fits) << host;
    EXPECT_EQ(pair.client.tls()->failure(), fits ? Failure::none : Failure::certificate) << host;
    if (!fits && *host != '\0') {
      EXPECT_FALSE(pair.connected.result);
      EXPECT_TRUE(!pair.read(pair.server)) << "the server hears of it";
    }
  }
}

TEST(TlsHandshake, TheChainMustEndAtOneOfOurs) {
  const tls::testing::Authority stranger;
  struct Case {
    ClientOptions::Verify verify;
    bool fits;
  };
  for (const auto& [verify, fits] :
       {Case{ClientOptions::Verify::full, false}, Case{ClientOptions::Verify::chain, false},
        Case{ClientOptions::Verify::none, true}}) {
    Pair pair(simulated());
    pair.shake_hands(server_context(), client_context({.verify = verify, .ca_file = stranger.file()}));
    EXPECT_EQ(pair.connected.result.has_value(), fits);
    if (!fits) EXPECT_NE(pair.client.tls()->failure_text().find("certificate"), std::string::npos);
  }
  Pair pair(simulated());
  pair.shake_hands(server_context(), client_context({.verify = ClientOptions::Verify::chain}), "another.name");
  EXPECT_TRUE(pair.connected.result) << "a chain is for any name";
}

// RFC 5929, 4.1.
TEST(TlsHandshake, TheServersEndPointIsTheHashOfItsCertificate) {
  Pair pair(simulated());
  EXPECT_EQ(pair.client.tls(), nullptr);
  pair.establish();
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(localhost().certificate.c_str(), "r"), std::fclose);
  X509* const certificate = PEM_read_X509(file.get(), nullptr, nullptr, nullptr);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  ASSERT_EQ(X509_digest(certificate, EVP_sha256(), digest, &size), 1);
  X509_free(certificate);
  EXPECT_EQ(pair.client.tls()->server_end_point(), std::string(reinterpret_cast<const char*>(digest), size));
  EXPECT_EQ(pair.server.tls()->server_end_point(), "") << "the client has shown none";
}

TEST(TlsHandshake, AnExpiredCertificateIsRefusedByClientsAndToldToOperators) {
  const auto expired = authority().issue("expired", {.from_s = -7200, .until_s = -3600});
  const auto context = server_context({.certificates = {expired}});
  ASSERT_EQ(context->warnings().size(), 1u);
  EXPECT_NE(context->warnings()[0].text.find("has expired on 20"), std::string::npos) << context->warnings()[0].text;
  Pair pair(simulated());
  pair.shake_hands(context, client_context());
  EXPECT_FALSE(pair.connected.result);
  EXPECT_NE(pair.client.tls()->failure_text().find("expired"), std::string::npos);
}

TEST(TlsHandshake, TheNameChoosesTheCertificate) {
  const auto first = authority().issue("first", {.names = {"first.example"}});
  const auto second = authority().issue("second", {.names = {"second.example", "*.wild.example"}});
  const auto context = server_context({.certificates = {first, second}});
  for (const auto& [host, subject] : {std::pair{"first.example", "first.example"},
                                      {"second.example", "second.example"},
                                      {"SECOND.example", "second.example"},
                                      {"a.wild.example", "second.example"},
                                      {"wild.example", "first.example"},
                                      {"a.b.wild.example", "first.example"},
                                      {"unknown.example", "first.example"},
                                      {"127.0.0.1", "first.example"}}) {
    Pair pair(simulated());
    pair.shake_hands(context, client_context({.verify = ClientOptions::Verify::chain}), host);
    EXPECT_TRUE(pair.connected.result);
    EXPECT_EQ(pair.client.tls()->peer_subject(), std::string("CN=") + subject) << host;
  }
}

TEST(TlsHandshake, AlpnTakesWhatTheServerPrefers) {
  struct Case {
    std::vector<std::string> server;
    std::vector<std::string> client;
    const char* chosen;  // null: the handshake fails
  };
  for (const Case& one :
       {Case{{"h2", "http/1.1"}, {"http/1.1", "h2"}, "h2"}, Case{{"http/1.1"}, {"h2", "http/1.1"}, "http/1.1"},
        Case{{"http/1.1"}, {}, ""}, Case{{}, {"h2"}, ""}, Case{{"http/1.1"}, {"h2"}, nullptr}}) {
    Pair pair(simulated());
    pair.shake_hands(server_context({.alpn = one.server}), client_context({.alpn = one.client}));
    if (one.chosen == nullptr) {
      EXPECT_EQ(pair.server.tls()->failure(), Failure::protocol);
      EXPECT_EQ(pair.client.tls()->failure(), Failure::refused) << "the alert has come";
      continue;
    }
    EXPECT_TRUE(pair.accepted.result && pair.connected.result);
    EXPECT_EQ(pair.server.tls()->protocol(), one.chosen);
    EXPECT_EQ(pair.client.tls()->protocol(), one.chosen);
  }
}

TEST(TlsHandshake, ClientsShowCertificatesWhereTheyMust) {
  using tls::ClientCertificate;
  const tls::testing::Authority strangers;
  const auto known = authority().issue("client");
  const auto stranger = strangers.issue("stranger");
  struct Case {
    ClientCertificate demand;
    const tls::CertificateFiles* shown;
    bool fits;
    bool verified;
  };
  for (const auto& [demand, shown, fits, verified] :
       {Case{ClientCertificate::off, &known, true, false}, Case{ClientCertificate::optional, nullptr, true, false},
        Case{ClientCertificate::optional, &known, true, true},
        Case{ClientCertificate::optional, &stranger, false, false},
        Case{ClientCertificate::require, nullptr, false, false}, Case{ClientCertificate::require, &known, true, true},
        Case{ClientCertificate::require, &stranger, false, false}}) {
    Pair pair(simulated());
    ClientOptions options;
    if (shown != nullptr) {
      options.certificate = shown->certificate;
      options.key = shown->key;
    }
    pair.shake_hands(server_context({.client_certificate = demand, .client_ca = authority().file()}),
                     client_context(options));
    EXPECT_EQ(pair.accepted.result.has_value(), fits);
    EXPECT_EQ(pair.server.tls()->failure(), fits ? Failure::none : Failure::certificate);
    if (fits) {
      EXPECT_EQ(pair.server.tls()->has_peer_certificate(), verified);
      EXPECT_EQ(pair.server.tls()->peer_certificate() != nullptr, verified);
    } else {
      EXPECT_FALSE(pair.read(pair.client)) << "the client hears of it with its first read";
      EXPECT_EQ(pair.client.tls()->failure(), Failure::refused);
    }
  }
}

// ---- Trusted certificates and revocation lists ----

std::string text_of_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A root, an authority below it, and certificates of both.
class Trust : public testing::Test {
 protected:
  using Crl = tls::Crl;

  // Why a server that trusts this text refuses the client with this certificate; empty: it does not.
  std::string client_refusal(const std::string& trusted, const tls::CertificateFiles& shown, Crl crl = Crl::soft) {
    root.write_text("trusted.pem", trusted);
    Pair pair(simulated());
    pair.shake_hands(
        server_context(
            {.client_certificate = tls::ClientCertificate::require, .client_ca = root.path("trusted.pem"), .crl = crl}),
        client_context({.certificate = shown.certificate, .key = shown.key}));
    EXPECT_EQ(pair.server.tls()->failure() == Failure::certificate, !pair.accepted.result);
    return pair.server.tls()->failure_text();
  }
  // The same for a client that trusts this text, and a server.
  std::string server_refusal(const std::string& trusted, const tls::CertificateFiles& shown, Crl crl = Crl::soft) {
    root.write_text("trusted.pem", trusted);
    Pair pair(simulated());
    pair.shake_hands(server_context({.certificates = {shown}}),
                     client_context({.ca_file = root.path("trusted.pem"), .crl = crl}));
    EXPECT_EQ(pair.client.tls()->failure() == Failure::certificate, !pair.connected.result);
    return pair.client.tls()->failure_text();
  }
  // The same in both directions.
  std::string refusal(const std::string& trusted, const tls::CertificateFiles& shown, Crl crl = Crl::soft) {
    const std::string why = client_refusal(trusted, shown, crl);
    EXPECT_EQ(server_refusal(trusted, shown, crl), why);
    if (why.empty()) return why;
    const std::string begin = "certificate verify failed: ";
    EXPECT_TRUE(why.starts_with(begin)) << why;
    return why.substr(begin.size(), why.find(" (") - begin.size());
  }

  const tls::testing::Authority root;
  const tls::testing::Authority middle{&root};
  const tls::CertificateFiles below_root = root.issue("below-root");
  const tls::CertificateFiles good = middle.issue("good");
  const tls::CertificateFiles lost = middle.issue("lost");
  const std::string root_text = text_of_file(root.file());
  const std::string middle_text = text_of_file(middle.file());
};

TEST_F(Trust, ListsRevokeCertificatesAndAuthorities) {
  const std::string lists = root.revocation_list({}) + middle.revocation_list({lost.certificate});
  for (const Crl crl : {Crl::soft, Crl::hard}) {
    for (const std::string& trusted : {root_text + lists, lists + middle_text + root_text}) {
      EXPECT_EQ(refusal(trusted, good, crl), "");
      EXPECT_EQ(refusal(trusted, lost, crl), "certificate revoked");
      EXPECT_EQ(refusal(trusted, below_root, crl), "");
    }
    const std::string revoked = root.revocation_list({middle.file()}) + middle.revocation_list({});
    for (const std::string& trusted : {root_text + revoked, revoked + middle_text + root_text}) {
      EXPECT_EQ(refusal(trusted, good, crl), "certificate revoked");
      EXPECT_EQ(refusal(trusted, below_root, crl), "");
    }
  }
}

TEST_F(Trust, AMissingListIsWhatTheOptionSays) {
  const std::string trusted = root_text + root.revocation_list({});
  EXPECT_EQ(refusal(trusted, good), "");
  EXPECT_EQ(refusal(trusted, good, Crl::hard), "unable to get certificate CRL");
  EXPECT_EQ(refusal(trusted, below_root, Crl::hard), "");
  EXPECT_EQ(refusal(root_text + middle.revocation_list({}), good, Crl::hard), "unable to get certificate CRL");
  root.write_text("trusted.pem", root_text);
  const auto made = ClientContext::make({.ca_file = root.path("trusted.pem"), .crl = Crl::hard});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().file, tls::Problem::File::ca);
  EXPECT_TRUE(made.error().text.ends_with("trusted.pem holds no revocation list, which crl = \"hard\" needs"));
}

TEST_F(Trust, AnExpiredListStillApplies) {
  const std::string trusted = root_text + root.revocation_list({}) + middle.revocation_list({lost.certificate}, -3600);
  EXPECT_EQ(refusal(trusted, good), "");
  EXPECT_EQ(refusal(trusted, lost), "certificate revoked");
  EXPECT_EQ(refusal(trusted, good, Crl::hard), "CRL has expired");
  EXPECT_EQ(refusal(trusted, below_root, Crl::hard), "");
  const auto warnings = client_context({.ca_file = root.path("trusted.pem")})->warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("trusted.pem holds a revocation list of CN=CA of sluice-tls-"), std::string::npos);
  EXPECT_NE(warnings[0].find(" that has expired on 20"), std::string::npos);
}

TEST_F(Trust, AListOfSomebodyElseRevokesNothing) {
  const tls::testing::Authority stranger;
  EXPECT_EQ(refusal(root_text + root.revocation_list({}) + stranger.revocation_list({good.certificate}), good), "");
}

TEST_F(Trust, WhatIsAcceptedWithoutAValidListIsLoggedOnce) {
  root.write_text("trusted.pem", root_text + root.revocation_list({}) + middle.revocation_list({}, 7200, 3600));
  const auto trusting = client_context({.ca_file = root.path("trusted.pem")});
  root.write_text("trusted.pem", root_text + root.revocation_list({}));
  const auto without = client_context({.ca_file = root.path("trusted.pem")});
  const auto served = server_context({.certificates = {good}});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    Pair pair(simulated());
    pair.establish(served, trusting);
    Pair other(simulated());
    other.establish(served, without);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(log, '\n'), 2) << log;
  EXPECT_NE(log.find("trusted.pem holds a revocation list of CN=CA of "), std::string::npos) << log;
  EXPECT_NE(log.find(" that is not valid now; it still applies (crl = \"soft\")"), std::string::npos) << log;
  EXPECT_NE(log.find("trusted.pem holds no revocation list of CN=CA of "), std::string::npos) << log;
}

TEST_F(Trust, AnchorsNeedNotBeSelfSigned) {
  EXPECT_EQ(refusal(middle_text, good), "");
  EXPECT_NE(refusal(middle_text, below_root), "");
  for (const Crl crl : {Crl::soft, Crl::hard}) {
    const std::string lists = middle.revocation_list({lost.certificate});
    EXPECT_EQ(refusal(middle_text + lists, good, crl), "");
    EXPECT_EQ(refusal(middle_text + lists, lost, crl), "certificate revoked");
  }
}

TEST_F(Trust, ACertificateMayBePinned) {
  std::string pinned = text_of_file(good.certificate);
  pinned.resize(pinned.find("-----END CERTIFICATE-----") + 26);
  EXPECT_EQ(refusal(pinned, good), "");
  EXPECT_NE(refusal(pinned, lost), "");
  EXPECT_NE(refusal(pinned, below_root), "");
}

// The file trusts a whole chain, and an authority whose issuer is not in the file.
TEST_F(Trust, ARevokedAuthorityIsNoAnchor) {
  const tls::testing::Authority other_root;
  const tls::testing::Authority orphan{&other_root};
  const std::string trusted = root_text + middle_text + text_of_file(orphan.file()) +
                              root.revocation_list({middle.file()}) + middle.revocation_list({});
  EXPECT_EQ(refusal(trusted, good), "certificate revoked");
  EXPECT_EQ(refusal(trusted, orphan.issue("member")), "");
  const auto warnings = client_context({.ca_file = root.path("trusted.pem")})->warnings();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].ends_with(", which is therefore not trusted")) << warnings[0];
}

TEST(TlsRefusalLog, WritesALineASecond) {
  testing::internal::CaptureStderr();
  tls::RefusalLog log;
  const Instant begin{1h};
  log.refused("192.0.2.1", "first", begin);
  log.refused("192.0.2.2", "second", begin + 10ms);
  log.refused("192.0.2.3", "third", begin + 999ms);
  log.refused("192.0.2.4", "fourth", begin + 1s);
  log.refused("192.0.2.5", "fifth", begin + 3s);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("tls: refused the certificate of 192.0.2.1: first\n"), std::string::npos) << text;
  EXPECT_NE(text.find("tls: refused the certificate of 192.0.2.4: fourth; 2 more before that were not logged\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("tls: refused the certificate of 192.0.2.5: fifth\n"), std::string::npos) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
}

TEST(TlsHandshake, HasADeadline) {
  Pair pair(simulated());
  const Instant start = pair.reactor->now();
  pair.tasks.spawn(pair.accept(server_context(), pair.accepted));
  EXPECT_TRUE(pair.write(pair.client, "\x16\x03\x01"));
  pair.run([&] { return pair.accepted.done; });
  EXPECT_EQ(pair.accepted.result, Result<void>(fail(Errc::timed_out)));
  EXPECT_GE(pair.reactor->now(), start + patience);
}

TEST(TlsServerContext, SaysWhatIsWrongWithItsFiles) {
  using File = tls::Problem::File;
  const auto other = authority().issue("other");
  const auto good = localhost();
  authority().write_text("empty.pem", "");
  authority().write_text("secret.key",
                         "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                         "MIHjME4GCSqGSIb3DQEFDTBBMCkGCSqGSIb3DQEFDDAcBAjGvAcqh4xUQQICCAAw\n"
                         "DAYIKoZIhvcNAgkFADAUBggqhkiG9w0DBwQI5yNCu9T5SnsEgZBRUC1FgGNFIVbM\n"
                         "-----END ENCRYPTED PRIVATE KEY-----\n");
  struct Case {
    tls::CertificateFiles files;
    File file;
    const char* text;
  };
  for (const auto& [files, file, text] :
       {Case{{authority().path("none.pem"), good.key}, File::certificate, "none.pem cannot be read: No such file"},
        Case{{authority().path("empty.pem"), good.key}, File::certificate, "empty.pem holds no PEM certificate"},
        Case{{good.key, good.key}, File::certificate, "localhost.key holds no PEM certificate"},
        Case{{good.certificate, authority().path("none.key")}, File::key, "none.key cannot be read: No such file"},
        Case{{good.certificate, good.certificate}, File::key, "localhost.pem holds no PEM private key"},
        Case{{good.certificate, other.key}, File::key, "other.key is not the key of "}}) {
    const auto made = ServerContext::make({.certificates = {good, files}});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().certificate, 1u);
    EXPECT_EQ(made.error().file, file) << made.error().text;
    EXPECT_NE(made.error().text.find(text), std::string::npos) << made.error().text;
  }
  const auto no_ca = ServerContext::make({.certificates = {good},
                                          .client_certificate = tls::ClientCertificate::require,
                                          .client_ca = authority().path("empty.pem")});
  ASSERT_FALSE(no_ca);
  EXPECT_EQ(no_ca.error().file, File::ca);
}

TEST(TlsServerContext, ReadsAKeyThatNeedsAPassphraseAsAnErrorAndAsksNobody) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  const std::string path = authority().path("locked.key");
  std::FILE* out = std::fopen(path.c_str(), "w");
  PEM_write_PKCS8PrivateKey(out, key, EVP_aes_128_cbc(), "secret", 6, nullptr, nullptr);
  std::fclose(out);
  EVP_PKEY_free(key);
  const auto made = ServerContext::make({.certificates = {{localhost().certificate, path}}});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text.find("needs a passphrase"), std::string::npos) << made.error().text;
}

TEST(TlsServerContext, AChainInDisorderIsTold) {
  const tls::testing::Authority stranger;
  const auto files = authority().issue("disorder");
  std::FILE* out = std::fopen(files.certificate.c_str(), "a");
  std::FILE* in = std::fopen(stranger.file().c_str(), "r");
  for (int c = std::fgetc(in); c != EOF; c = std::fgetc(in)) std::fputc(c, out);
  std::fclose(in);
  std::fclose(out);
  const auto made = ServerContext::make({.certificates = {files}});
  ASSERT_TRUE(made);
  ASSERT_EQ((*made)->warnings().size(), 1u);
  EXPECT_NE((*made)->warnings()[0].text.find("certificate 3 has not issued"), std::string::npos);
}

TEST(TlsClientContext, SaysWhatIsWrongWithItsFiles) {
  using File = tls::Problem::File;
  const auto good = localhost();
  const auto other = authority().issue("another");
  authority().write_text("nothing.pem", "");
  struct Case {
    ClientOptions options;
    File file;
    const char* text;
  };
  for (const auto& [options, file, text] :
       {Case{{.ca_file = authority().path("none.pem")}, File::ca, "none.pem cannot be read: No such file"},
        Case{{.ca_file = authority().path("nothing.pem")}, File::ca, "nothing.pem holds no PEM certificates"},
        Case{{.certificate = authority().path("none.pem"), .key = good.key}, File::certificate, "cannot be read"},
        Case{{.certificate = good.certificate, .key = good.certificate}, File::key, "holds no PEM private key"},
        Case{{.certificate = good.certificate, .key = other.key}, File::key, "another.key is not the key of "}}) {
    const auto made = ClientContext::make(options);
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().file, file) << made.error().text;
    EXPECT_NE(made.error().text.find(text), std::string::npos) << made.error().text;
  }
}

TEST(TlsClientContext, AnotherFileMakesAnotherFingerprint) {
  const tls::testing::Authority one;
  const tls::testing::Authority two;
  const auto print = [](const std::string& ca, ClientOptions::Verify verify = ClientOptions::Verify::full) {
    return (*ClientContext::make({.verify = verify, .ca_file = ca}))->fingerprint();
  };
  EXPECT_EQ(print(one.file()), print(one.file()));
  EXPECT_NE(print(one.file()), print(two.file()));
  EXPECT_NE(print(one.file()), print(one.file(), ClientOptions::Verify::chain));
}

TEST(TlsResumption, AShorterHandshakeTheNextTime) {
  const auto context = server_context();
  const auto for_client = client_context();
  tls::Resumption resumption;
  const auto tickets = tls::TicketKeys::make();
  for (int i = 0; i < 3; ++i) {
    Pair pair(simulated());
    pair.server_core.tickets = tickets;
    pair.resumption = &resumption;
    pair.establish(context, for_client);
    EXPECT_EQ(pair.client.tls()->resumed(), i != 0);
    EXPECT_TRUE(pair.client.tls()->has_peer_certificate());
    EXPECT_TRUE(pair.write(pair.server, "x"));
    EXPECT_EQ(pair.read(pair.client), "x");  // reads the ticket too
    ASSERT_NE(resumption.get(), nullptr);
    // The connection ends without close_notify.
  }
  Pair pair(simulated());
  pair.server_core.tickets = tls::TicketKeys::make();
  pair.resumption = &resumption;
  pair.establish(context, for_client);
  EXPECT_FALSE(pair.client.tls()->resumed()) << "the server has forgotten";
}

// A client that calls OpenSSL directly, for actions that ours does not support. It sends through the plain client of a
// Pair.
class RawClient {
 public:
  RawClient(int version, SSL_SESSION* resume = nullptr) {
    SSL_CTX_set_min_proto_version(context_, version);
    SSL_CTX_set_max_proto_version(context_, version);
    SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
    ssl = SSL_new(context_);
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in_, out_);
    SSL_set_connect_state(ssl);
    if (resume != nullptr) SSL_set_session(ssl, resume);
  }
  ~RawClient() {
    SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);  // otherwise its session could not be resumed
    SSL_free(ssl);
    SSL_CTX_free(context_);
  }

  // Passes the client's output to the server and the server's output to the client.
  void exchange(Pair& pair) {
    char block[20'000];
    for (int size = 0; (size = BIO_read(out_, block, sizeof block)) > 0;) {
      EXPECT_TRUE(pair.write(pair.client, std::string(block, static_cast<std::size_t>(size))));
    }
    for (int i = 0; i < 20; ++i) pair.reactor->turn(pair.reactor->now() + 1ms);
    while (pair.client.handle().may_read) {
      const core::Io io = pair.reactor->recv(pair.client.handle(), block, sizeof block);
      if (!io.ok() || io.bytes == 0) break;
      BIO_write(in_, block, static_cast<int>(io.bytes));
    }
  }
  // Returns the session with its ticket, which the caller owns; null: the handshake has failed.
  SSL_SESSION* shake_hands(Pair& pair, std::shared_ptr<const ServerContext> context) {
    pair.tasks.spawn(pair.accept(std::move(context), pair.accepted));
    for (int i = 0; i < 10; ++i) {
      (void)SSL_do_handshake(ssl);
      exchange(pair);
    }
    EXPECT_TRUE(pair.accepted.done && pair.accepted.result) << pair.server.tls()->failure_text();
    char byte = 0;
    EXPECT_LE(SSL_read(ssl, &byte, 1), 0) << "it reads TLS 1.3's tickets";
    return SSL_get1_session(ssl);
  }

  SSL* ssl;

 private:
  SSL_CTX* context_ = SSL_CTX_new(TLS_client_method());
  BIO* in_;
  BIO* out_;
};

class TlsResumption : public testing::TestWithParam<int> {
 protected:
  ~TlsResumption() override { SSL_SESSION_free(session_); }

  // Connects with the session of the previous connection. Returns true if it was resumed.
  bool connect(const std::shared_ptr<const ServerContext>& context, std::shared_ptr<const tls::TicketKeys> keys) {
    Pair pair(simulated());
    pair.server_core.tickets = std::move(keys);
    RawClient client(GetParam(), session_);
    SSL_SESSION* next = client.shake_hands(pair, context);
    SSL_SESSION_free(session_);
    session_ = next;
    EXPECT_EQ(SSL_session_reused(client.ssl) == 1, pair.server.tls()->resumed());
    return pair.server.tls()->resumed();
  }

 private:
  SSL_SESSION* session_ = nullptr;
};

TEST_P(TlsResumption, WorksAcrossCoresCertificatesAndRotations) {
  const auto context = server_context();
  auto keys = tls::TicketKeys::make();
  EXPECT_FALSE(connect(context, keys));
  EXPECT_TRUE(connect(context, keys)) << "another core";
  EXPECT_TRUE(connect(context, keys)) << "with what the resumed connection was given";
  EXPECT_TRUE(connect(server_context({.certificates = {authority().issue("renewed")}}), keys));
  keys = keys->rotated();
  EXPECT_TRUE(connect(context, keys)) << "and this gives a ticket of the new key";
  EXPECT_TRUE(connect(context, keys->rotated()->rotated()));
  for (std::size_t i = 0; i < tls::TicketKeys::most; ++i) keys = keys->rotated();
  EXPECT_FALSE(connect(context, tls::TicketKeys::make())) << "a key that is not there is a whole handshake";
  EXPECT_FALSE(connect(context, keys));
  EXPECT_TRUE(connect(context, keys));
}

TEST_P(TlsResumption, DoesNotOutliveTheKeysNorLetInWhoWasLetInElsewhere) {
  const auto context = server_context();
  EXPECT_FALSE(connect(context, nullptr));
  EXPECT_FALSE(connect(context, nullptr)) << "without keys nothing is resumed";
  const auto keys = tls::TicketKeys::make();
  EXPECT_FALSE(connect(context, keys));
  EXPECT_TRUE(connect(context, keys));
  EXPECT_FALSE(connect(
      server_context({.client_certificate = tls::ClientCertificate::optional, .client_ca = authority().file()}), keys));
}

INSTANTIATE_TEST_SUITE_P(Versions, TlsResumption, testing::Values(TLS1_2_VERSION, TLS1_3_VERSION),
                         [](const auto& info) { return info.param == TLS1_3_VERSION ? "tls13" : "tls12"; });

// A peer could send records without data endlessly.
TEST(TlsSession, KeyUpdatesAreAnsweredAndARenegotiationIsNot) {
  for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
    Pair pair(simulated());
    RawClient client(version);
    SSL_SESSION_free(client.shake_hands(pair, server_context()));
    for (int round = 0; round < 3; ++round) {
      if (version == TLS1_3_VERSION) {
        EXPECT_EQ(SSL_key_update(client.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
      } else if (round == 1) {
        EXPECT_EQ(SSL_renegotiate(client.ssl), 1);
        EXPECT_LE(SSL_do_handshake(client.ssl), 0);
        client.exchange(pair);
      }
      const bool renegotiates = version == TLS1_2_VERSION && round == 1;
      if (!renegotiates) EXPECT_EQ(SSL_write(client.ssl, "hello", 5), 5) << version << round;
      client.exchange(pair);
      if (!renegotiates) {
        EXPECT_EQ(pair.read(pair.server), "hello");
        EXPECT_TRUE(pair.write(pair.server, "world"));
        client.exchange(pair);
        char block[16];
        EXPECT_EQ(SSL_read(client.ssl, block, sizeof block), 5);
        continue;
      }
      // An alert refuses the renegotiation, and the client ends the connection.
      bool done = false;
      Result<std::size_t> got = 0;
      pair.tasks.spawn([](Pair& all, Result<std::size_t>& into, bool& finished) -> Task<void> {
        Buffer bytes;
        into = co_await all.server.read(bytes, 100, all.reactor->now() + 100ms);
        finished = true;
      }(pair, got, done));
      pair.run([&] { return done; });
      EXPECT_FALSE(got);
      client.exchange(pair);
      EXPECT_LE(SSL_do_handshake(client.ssl), 0);
      EXPECT_EQ(ERR_GET_REASON(ERR_get_error()), SSL_R_NO_RENEGOTIATION);
      ERR_clear_error();
      break;
    }
  }
}

TEST(TlsSession, AFloodOfKeyUpdatesEndsTheConnection) {
  Pair pair(simulated());
  RawClient client(TLS1_3_VERSION);
  SSL_SESSION_free(client.shake_hands(pair, server_context()));
  bool done = false;
  Result<std::size_t> got = 0;
  pair.tasks.spawn([](Pair& all, Result<std::size_t>& into, bool& finished) -> Task<void> {
    Buffer bytes;
    into = co_await all.server.read(bytes, 100, all.reactor->now() + 5s);
    finished = true;
  }(pair, got, done));
  for (int i = 0; i < 50'000 && !done; ++i) {
    SSL_key_update(client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(client.ssl);
    if (i % 500 == 499) client.exchange(pair);
  }
  pair.run([&] { return done; });
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::malformed);
}

TEST(TlsTicketKeys, TheOldestAreForgotten) {
  auto keys = tls::TicketKeys::make();
  ASSERT_EQ(keys->keys().size(), 1u);
  const auto first = keys->keys()[0];
  for (std::size_t rotations = 1; rotations < 5; ++rotations) {
    keys = keys->rotated();
    ASSERT_EQ(keys->keys().size(), std::min<std::size_t>(rotations + 1, tls::TicketKeys::most));
    EXPECT_NE(keys->keys()[0]->name, keys->keys()[1]->name);
    EXPECT_NE(keys->keys()[0]->cipher, keys->keys()[1]->cipher);
    EXPECT_EQ(keys->keys().back() == first, rotations < tls::TicketKeys::most);
  }
}

}  // namespace
}  // namespace sluice::net
