#include "http/client/connection.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"

namespace sluice::http::client {
namespace {

using core::Task;
using Kind = h1::BodyFraming::Kind;

// A body whose pieces become available one at a time, each after a pause.
class Pieces final : public BodyReader {
 public:
  Pieces(core::Reactor& reactor, std::vector<std::string> pieces, Result<void> end = {}, Duration pause = 1ms)
      : reactor_(reactor), pieces_(std::move(pieces)), end_(end), pause_(pause) {}

  Task<Result<std::string_view>> read() override {
    co_await core::Sleep(reactor_, reactor_.now() + pause_);
    if (next_ < pieces_.size()) co_return pieces_[next_++];
    if (!end_) co_return std::unexpected(end_.error());
    co_return std::string_view{};
  }

 private:
  core::Reactor& reactor_;
  const std::vector<std::string> pieces_;
  const Result<void> end_;
  const Duration pause_;
  std::size_t next_ = 0;
};

struct Step {
  std::string until;   // the server reads until the received bytes end with this
  std::string answer;  // and, after the pause, sends this
  Duration pause{};
};

// The result of one exchange, as the client sees it.
struct Outcome {
  Result<int> status = 0;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  Result<void> end;
  std::vector<std::pair<std::string, std::string>> trailers;
  bool is_reusable = false;
  bool nothing_came = false;
};

// A connection to a server that follows a list of steps.
class ClientConnection : public testing::Test, Connection::Keeper {
 protected:
  explicit ClientConnection(const core::Faults& faults = {}, std::uint64_t seed = 7) : reactor_(seed, faults) {}

  enum class Then { waits, closes };
  // The server follows these steps on each connection.
  void serve(std::vector<Step> steps, Then then = Then::waits) {
    if (!listener_.open()) {
      ASSERT_TRUE(reactor_.listen(listener_.handle(), *core::Address::parse("127.0.0.1:0"), {}));
      address_ = *reactor_.local_address(listener_.handle());
    }
    tasks_.spawn(run_server(std::move(steps), then));
  }
  Task<void> run_server(std::vector<Step> steps, Then then) {
    net::Stream stream(reactor_);
    for (;;) {
      const auto accepted = reactor_.accept(listener_.handle(), stream.handle(), nullptr);
      if (accepted && *accepted) break;
      (void)co_await listener_.readable(never);
    }
    Buffer bytes;
    for (const Step& step : steps) {
      while (!received_.ends_with(step.until)) {
        const auto got = co_await stream.read(bytes, 4096, never);
        if (!got || *got == 0) {
          lost_ = true;
          co_return;
        }
        received_ += bytes.view();
        bytes.clear();
      }
      if (step.pause != Duration{}) co_await core::Sleep(reactor_, reactor_.now() + step.pause);
      std::string answer = step.answer;
      iovec part{answer.data(), answer.size()};
      (void)co_await stream.write({&part, 1}, 1h);
    }
    if (then == Then::closes) co_return;
    // Until the client has closed.
    for (;;) {
      const auto got = co_await stream.read(bytes, 4096, never);
      lost_ = !got || *got == 0;
      if (lost_) co_return;
      received_ += bytes.view();
      bytes.clear();
    }
  }

  void connect() {
    connection_ = std::make_unique<Connection>(reactor_, options_);
    tasks_.spawn([](Connection& connection, core::Address to) -> Task<void> {
      EXPECT_TRUE(co_await connection.connect(to, never));
    }(*connection_, address_));
    pass(10ms);
  }
  // Sends a request and reads the whole response.
  Outcome ask(RequestHead head = {.host = "a"}, BodyReader* body = nullptr) {
    Outcome outcome;
    bool is_done = false;
    tasks_.spawn(run_client(*connection_, head, body, outcome, is_done));
    const Instant latest = reactor_.now() + 10h;
    while (!is_done && reactor_.now() < latest && !reactor_.deadlocked()) reactor_.turn(latest);
    EXPECT_TRUE(is_done);
    return outcome;
  }
  static Task<void> run_client(Connection& connection, RequestHead asked, BodyReader* with, Outcome& outcome,
                               bool& is_done) {
    const auto head = co_await connection.ask(asked, with);
    outcome.nothing_came = connection.nothing_came();
    outcome.status = head ? Result<int>((*head)->status) : std::unexpected(head.error());
    Buffer bytes;
    while (head) {
      const auto progress = co_await connection.read(bytes);
      if (!progress) outcome.end = std::unexpected(progress.error());
      if (!progress || *progress == BodySource::Progress::done) break;
    }
    outcome.body = bytes.view();
    if (head) {
      for (const Field& field : (*head)->fields) outcome.fields.emplace_back(field.name, field.value);
    }
    for (const Field& field : connection.trailers()) outcome.trailers.emplace_back(field.name, field.value);
    outcome.is_reusable = connection.is_reusable();
    is_done = true;
  }
  void pass(Duration time) {
    const Instant until = reactor_.now() + time;
    while (reactor_.now() < until && !reactor_.deadlocked()) reactor_.turn(until);
  }
  void ended(Connection& idle) override {
    EXPECT_EQ(&idle, connection_.get());
    connection_.reset();
  }
  bool rest(Duration time) { return connection_->rest(*this, reactor_.now() + time); }

  core::SimulatedReactor reactor_;
  ConnectionOptions options_;
  net::Stream listener_{reactor_};
  core::Address address_;
  std::string received_;  // bytes received by the server
  bool lost_ = false;     // the server has seen the client's end
  std::unique_ptr<Connection> connection_;
  core::TaskGroup tasks_;
};

const std::string ok = "HTTP/1.1 200 OK\r\n";

TEST_F(ClientConnection, AsksOneThingAfterTheOther) {
  serve({{"\r\n\r\n", ok + "Content-Length: 5\r\nA: b\r\n\r\nhello"},
         {"two HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n", ok + "Content-Length: 0\r\n\r\n"},
         {"PUT /three HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 Gone well\r\n\r\n"}});
  connect();
  const Outcome first = ask({.target = "/one?a=b", .host = "a:80"});
  EXPECT_EQ(received_, "GET /one?a=b HTTP/1.1\r\nHost: a:80\r\n\r\n");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.fields.at(1).first + ": " + first.fields.at(1).second, "A: b");
  EXPECT_EQ(first.body, "hello");
  EXPECT_TRUE(first.end);
  EXPECT_TRUE(first.is_reusable);
  EXPECT_FALSE(first.nothing_came);
  // The members of the head take precedence over these fields.
  const std::vector<Field> fields = {
      {"Host", "b"}, {"content-length", "7"}, {"X", "y"}, {"Connection", "close"}, {"Transfer-Encoding", "chunked"}};
  const Outcome second = ask({.target = "/two", .host = "a", .fields = fields});
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(second.body, "");
  EXPECT_TRUE(second.is_reusable);
  EXPECT_EQ(ask({.method = "PUT", .target = "/three", .host = "a", .body = {Kind::length, 0}}).status, 204);
}

// The result must not depend on how the network splits the bytes.
class InBadWeather : public testing::TestWithParam<int> {};
struct Weather : ClientConnection {
  using ClientConnection::ask;
  using ClientConnection::connect;
  using ClientConnection::serve;
  using ClientConnection::Then;
  explicit Weather(std::uint64_t seed)
      : ClientConnection({.short_read = 0.3, .short_write = 0.3, .would_block = 0.3, .split = 0.7}, seed) {}
  void TestBody() override {}
};

TEST_P(InBadWeather, EachKindOfResponseComesWhole) {
  const std::string text = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string long_text;
  while (long_text.size() < 200'000) long_text += text;
  const std::string length = std::to_string(long_text.size());
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
  std::string chunks;
  for (std::size_t at = 0; at < long_text.size(); at += 1000) {
    chunks += "3e8\r\n" + long_text.substr(at, 1000) + "\r\n";
    if (long_text.size() - at < 1000) FAIL() << "the text is no multiple of the chunk";
    if (long_text.size() - at < 2000) {
      const std::string rest = long_text.substr(at + 1000);
      static constexpr char digits[] = "0123456789abcdef";
      std::string size;
      for (std::size_t left = rest.size(); left != 0; left /= 16) size.insert(size.begin(), digits[left % 16]);
      if (!rest.empty()) chunks += size + "\r\n" + rest + "\r\n";
      break;
    }
  }
  Weather world(static_cast<std::uint64_t>(GetParam()));
  world.serve(
      {{"/1 HTTP/1.1\r\nHost: a\r\n\r\n", ok + "Content-Length: " + length + "\r\n\r\n" + long_text},
       {"/2 HTTP/1.1\r\nHost: a\r\n\r\n", interim + ok + "Transfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n" +
                                              chunks + "0\r\nX-Sum: 7 \r\nB:\r\n\r\n"},
       {"/3 HTTP/1.1\r\nHost: a\r\n\r\n", ok + "Content-Length: 100\r\n\r\n"},
       {"/4 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n"},
       {"/5 HTTP/1.1\r\nHost: a\r\n\r\n", interim + ok + "\r\n" + long_text}},
      Weather::Then::closes);
  world.connect();
  const auto check = [&](const char* method, const char* target, int status, std::string_view body, bool reusable) {
    const Outcome outcome = world.ask({.method = method, .target = target, .host = "a"});
    EXPECT_EQ(outcome.status, status) << target;
    EXPECT_TRUE(outcome.end) << target;
    EXPECT_TRUE(outcome.body == body) << target;
    EXPECT_EQ(outcome.is_reusable, reusable) << target;
    return outcome;
  };
  check("GET", "/1", 200, long_text, true);
  const Outcome chunked = check("GET", "/2", 200, long_text, true);
  EXPECT_EQ(chunked.fields.size(), 2u);
  EXPECT_EQ(chunked.trailers, (std::vector<std::pair<std::string, std::string>>{{"X-Sum", "7"}, {"B", ""}}));
  EXPECT_TRUE(check("HEAD", "/3", 200, "", true).trailers.empty());
  check("GET", "/4", 304, "", true);
  check("GET", "/5", 200, long_text, false);
}
INSTANTIATE_TEST_SUITE_P(, InBadWeather, testing::Range(1, 30));

TEST_F(ClientConnection, ABodyThatEndsTooEarlyIsAnError) {
  for (const char* rest : {"Content-Length: 10\r\n\r\nshort", "Transfer-Encoding: chunked\r\n\r\na\r\nshort",
                           "Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n"}) {
    serve({{"\r\n\r\n", ok + rest}}, Then::closes);
    connect();
    const Outcome outcome = ask();
    EXPECT_EQ(outcome.status, 200) << rest;
    EXPECT_EQ(outcome.body, "short");
    EXPECT_EQ(outcome.end, Result<void>(fail(Errc::closed)));
    EXPECT_FALSE(outcome.is_reusable);
    received_.clear();
  }
}

TEST_F(ClientConnection, CarelessFramingIsRead) {
  for (const auto& [rest, reusable] :
       {std::pair("Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", true),
        std::pair("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false),
        std::pair("Transfer-Encoding: chunked\r\n\r\n2  \r\nhe\r\n3\nllo\n0\n\n", true)}) {
    serve({{"\r\n\r\n", ok + rest}});
    connect();
    const Outcome outcome = ask();
    EXPECT_EQ(outcome.body, "hello") << rest;
    EXPECT_TRUE(outcome.end) << rest;
    EXPECT_EQ(outcome.is_reusable, reusable) << rest;
    received_.clear();
  }
}

// Bytes after a response could be anything, such as the beginning of a response to another client's request.
TEST_F(ClientConnection, WhatNobodyAskedForEndsTheConnection) {
  for (const char* rest :
       {"Content-Length: 5\r\n\r\nhelloH", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nH"}) {
    serve({{"\r\n\r\n", ok + rest}});
    connect();
    const Outcome outcome = ask();
    EXPECT_EQ(outcome.body, "hello");
    EXPECT_TRUE(outcome.end);
    EXPECT_FALSE(outcome.is_reusable) << rest;
    received_.clear();
  }
  serve({{"\r\n\r\n", ok + "Connection: close\r\nContent-Length: 0\r\n\r\n"}});
  connect();
  EXPECT_FALSE(ask().is_reusable);
}

TEST_F(ClientConnection, WhatIsNoResponseIsRefused) {
  for (const auto& [answer, reason] : {std::pair("HTTP/1.1 2000 OK\r\n\r\n", h1::Reason::bad_status),
                                       std::pair("HTTP/1.1 200 OK\n\n", h1::Reason::bare_lf),
                                       std::pair("HTTP/1.1 101 Switching Protocols\r\n\r\n", h1::Reason::bad_status),
                                       std::pair("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                                                 h1::Reason::duplicate_content_length)}) {
    serve({{"\r\n\r\n", answer}});
    connect();
    EXPECT_EQ(ask().status, fail(Errc::malformed)) << answer;
    EXPECT_EQ(connection_->reason(), reason) << answer;
    EXPECT_FALSE(connection_->is_reusable());
    received_.clear();
  }
  serve({{"\r\n\r\n", ok + "Transfer-Encoding: chunked\r\n\r\nx\r\n"}});
  connect();
  EXPECT_EQ(ask().end, Result<void>(fail(Errc::malformed)));
  EXPECT_EQ(connection_->reason(), h1::Reason::bad_chunk_size);
}

TEST_F(ClientConnection, WhatIsNoRequestIsNotSent) {
  serve({});
  connect();
  const std::vector<Field> split = {{"A", "b\r\nC: d"}};
  const std::vector<Field> unnamed = {{"", "b"}};
  for (const RequestHead& head :
       {RequestHead{.target = "/a b", .host = "a"}, RequestHead{.target = "", .host = "a"},
        RequestHead{.method = "GET /", .host = "a"}, RequestHead{.host = ""}, RequestHead{.host = "a\r\nB: c"},
        RequestHead{.host = "a", .fields = split}, RequestHead{.host = "a", .fields = unnamed}}) {
    EXPECT_EQ(ask(head).status, fail(Errc::malformed));
    EXPECT_EQ(connection_->reason(), h1::Reason::none);
  }
  pass(10ms);
  EXPECT_EQ(received_, "");
}

TEST_F(ClientConnection, AServerThatClosesMayNotHaveSeenTheRequest) {
  serve({{"\r\n\r\n", ""}}, Then::closes);
  connect();
  Outcome outcome = ask();
  EXPECT_EQ(outcome.status, fail(Errc::closed));
  EXPECT_TRUE(outcome.nothing_came);
  received_.clear();
  serve({{"\r\n\r\n", "HTTP/1.1 2"}}, Then::closes);
  connect();
  outcome = ask();
  EXPECT_EQ(outcome.status, fail(Errc::closed));
  EXPECT_FALSE(outcome.nothing_came);
}

TEST_F(ClientConnection, AServerMayNotBeSilentForLong) {
  options_.head_timeout = 3s;
  options_.idle_timeout = 2s;
  serve({{"\r\n\r\n", ok}});
  connect();
  Instant begin = reactor_.now();
  EXPECT_EQ(ask().status, fail(Errc::timed_out));
  EXPECT_LT(reactor_.now() - begin, 4s);
  EXPECT_GE(reactor_.now() - begin, 3s);
  for (const char* rest :
       {"Content-Length: 10\r\n\r\nshort", "Transfer-Encoding: chunked\r\n\r\na\r\nshort", "\r\nshort"}) {
    received_.clear();
    serve({{"\r\n\r\n", ok + rest}});
    connect();
    begin = reactor_.now();
    EXPECT_EQ(ask().end, Result<void>(fail(Errc::timed_out)));
    EXPECT_LT(reactor_.now() - begin, 3s);
    EXPECT_GE(reactor_.now() - begin, 2s);
  }
}

// Bytes that arrive do not prolong the time for the whole head.
TEST_F(ClientConnection, AHeadMayNotTrickle) {
  options_.head_timeout = 3s;
  const auto of_pieces = [&](const std::string& piece) {
    received_.clear();
    std::vector<Step> steps{{.until = "\r\n\r\n", .answer = ok, .pause = {}}};
    if (piece.starts_with("HTTP")) steps.front().answer = piece;
    for (int i = 0; i < 20; ++i) steps.push_back({.until = "", .answer = piece, .pause = 500ms});
    steps.push_back({.until = "", .answer = ok + "Content-Length: 0\r\n\r\n", .pause = {}});
    serve(steps);
    connect();
    const Instant begin = reactor_.now();
    EXPECT_EQ(ask().status, fail(Errc::timed_out)) << piece;
    EXPECT_GE(reactor_.now() - begin, 3s) << piece;
    EXPECT_LT(reactor_.now() - begin, 4s) << piece;
  };
  of_pieces("A: b\r\n");
  of_pieces("HTTP/1.1 100 Continue\r\n\r\n");
}

TEST_F(ClientConnection, ManyInterimResponsesAreRefused) {
  for (const int count : {63, 64}) {
    received_.clear();
    std::string answer;
    for (int i = 0; i < count; ++i) answer += "HTTP/1.1 103 Early Hints\r\n\r\n";
    serve({{"\r\n\r\n", answer + ok + "Content-Length: 0\r\n\r\n"}});
    connect();
    EXPECT_EQ(ask().status, count == 63 ? Result<int>(200) : fail(Errc::malformed)) << count;
  }
}

// The timeout of the response begins when the whole request has been sent.
TEST_F(ClientConnection, ABodyIsSentAsItComes) {
  options_.head_timeout = 3s;
  const std::vector<std::string> pieces = {"hello", std::string(20'000, 'x'), "you"};
  for (const bool chunked : {false, true}) {
    received_.clear();
    serve({{chunked ? "0\r\n\r\n" : "you", ok + "Content-Length: 2\r\n\r\nok"},
           {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 204 \r\n\r\n"}});
    connect();
    Pieces body(reactor_, pieces, {}, 2s);
    Outcome outcome = ask({.method = "POST",
                           .host = "a",
                           .body = chunked ? h1::BodyFraming{Kind::chunked, 0} : h1::BodyFraming{Kind::length, 20'008}},
                          &body);
    EXPECT_EQ(outcome.status, 200);
    EXPECT_EQ(outcome.body, "ok");
    EXPECT_TRUE(outcome.is_reusable);
    EXPECT_EQ(
        received_,
        chunked ? "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n00000005\r\nhello\r\n00004E20\r\n" +
                      pieces[1] + "\r\n00000003\r\nyou\r\n0\r\n\r\n"
                : "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20008\r\n\r\nhello" + pieces[1] + "you");
    EXPECT_EQ(ask().status, 204);
    connection_.reset();
    pass(10ms);
  }
}

TEST_F(ClientConnection, ABodyThatFailsIsNotTakenForWhole) {
  for (const bool chunked : {false, true}) {
    serve({{"what never comes", ok}});
    connect();
    Pieces body(reactor_, {"hel"}, fail(Errc::limit));
    EXPECT_EQ(ask({.method = "POST",
                   .host = "a",
                   .body = chunked ? h1::BodyFraming{Kind::chunked, 0} : h1::BodyFraming{Kind::length, 5}},
                  &body)
                  .status,
              fail(Errc::limit));
    EXPECT_TRUE(connection_->body_failed());
    EXPECT_FALSE(connection_->is_reusable());
    connection_.reset();
    pass(10ms);
    EXPECT_TRUE(lost_);
    EXPECT_FALSE(received_.ends_with("0\r\n\r\n"));
    lost_ = false;
    received_.clear();
  }
}

// The body fails before the client waits for the response.
TEST_F(ClientConnection, ABodyMayFailAtOnce) {
  struct Refused final : BodyReader {
    Task<Result<std::string_view>> read() override { co_return fail(Errc::limit); }
  } body;
  serve({{"what never comes", ok}});
  connect();
  EXPECT_EQ(ask({.method = "POST", .host = "a", .body = {Kind::length, 5}}, &body).status, fail(Errc::limit));
  EXPECT_TRUE(connection_->body_failed());
}

TEST_F(ClientConnection, ABodyIsAsLongAsItWasSaidToBe) {
  for (const char* text : {"four", "sixsix"}) {
    serve({{"what never comes", ok}});
    connect();
    Pieces body(reactor_, {text});
    EXPECT_EQ(ask({.method = "POST", .host = "a", .body = {Kind::length, 5}}, &body).status, fail(Errc::malformed));
    EXPECT_TRUE(connection_->body_failed());
    EXPECT_FALSE(received_.ends_with("sixsix"));
  }
}

TEST_F(ClientConnection, AnAnswerMayComeBeforeTheEndOfTheRequest) {
  serve({{"hel", "HTTP/1.1 413 Too long\r\nContent-Length: 2\r\n\r\nno"}});
  connect();
  Pieces body(reactor_, {"hel", "lo"}, {}, 1h);
  const Outcome outcome = ask({.method = "POST", .host = "a", .body = {Kind::length, 5}}, &body);
  EXPECT_EQ(outcome.status, 413);
  EXPECT_EQ(outcome.body, "no");
  EXPECT_FALSE(outcome.is_reusable);
}

TEST_F(ClientConnection, TheHeadDoesNotWaitForTheBody) {
  for (const bool chunked : {false, true}) {
    received_.clear();
    serve({{"\r\n\r\n", "HTTP/1.1 413 Too long\r\nContent-Length: 0\r\n\r\n"}});
    connect();
    Pieces body(reactor_, {"hello"}, {}, 1h);
    const auto framing = chunked ? h1::BodyFraming{Kind::chunked, 0} : h1::BodyFraming{Kind::length, 5};
    EXPECT_EQ(ask({.method = "POST", .host = "a", .body = framing}, &body).status, 413);
    EXPECT_TRUE(received_.ends_with("\r\n\r\n"));
    EXPECT_FALSE(received_.contains("hello"));
    connection_.reset();
    pass(10ms);
  }
}

// The server answers and closes before it has read the whole body. Its answer counts.
TEST_F(ClientConnection, AnAnswerBeforeAnEndIsTaken) {
  serve({{"hel", "HTTP/1.1 413 Too long\r\nContent-Length: 2\r\n\r\nno"}}, Then::closes);
  connect();
  Pieces body(reactor_, {"hel", "lo"}, {}, 5ms);
  EXPECT_EQ(ask({.method = "POST", .host = "a", .body = {Kind::length, 5}}, &body).status, 413);
}

TEST_F(ClientConnection, RestsUntilItIsWanted) {
  serve({{"\r\n\r\n", ok + "Content-Length: 2\r\n\r\nok"},
         {"b HTTP/1.1\r\nHost: a\r\n\r\n", ok + "Content-Length: 2\r\n\r\nOK"}});
  connect();
  EXPECT_EQ(ask().body, "ok");
  ASSERT_TRUE(rest(1h));
  pass(30min);
  ASSERT_NE(connection_, nullptr);
  connection_->wake();
  EXPECT_EQ(ask({.target = "/b", .host = "a"}).body, "OK");
  ASSERT_TRUE(rest(1s));
  pass(2s);
  EXPECT_EQ(connection_, nullptr) << "its time is over";
  EXPECT_TRUE(lost_);
}

TEST_F(ClientConnection, RestsNoLongerThanItsServer) {
  serve({{"\r\n\r\n", ok + "Content-Length: 2\r\n\r\nok"}}, Then::closes);
  connect();
  EXPECT_EQ(ask().body, "ok");
  if (connection_->is_reusable() && rest(1h)) {
    pass(10ms);
    EXPECT_EQ(connection_, nullptr);
  }
  // A long body is read exactly up to its last byte, so the client has not noticed the byte after it.
  received_.clear();
  const std::string body(100'000, 'x');
  serve({{"\r\n\r\n", ok + "Content-Length: 100000\r\n\r\n" + body + "H"}});
  connect();
  EXPECT_EQ(ask().body, body);
  if (connection_->is_reusable() && rest(1h)) {
    pass(10ms);
    EXPECT_EQ(connection_, nullptr);
  }
}

TEST_F(ClientConnection, EndsWithWhoeverAsks) {
  serve({{"what never comes", ""}});
  connect();
  Pieces body(reactor_, {"hel"}, {}, 1ms);
  Outcome outcome;
  bool is_done = false;
  core::TaskGroup asking;
  asking.spawn(
      run_client(*connection_, {.method = "POST", .host = "a", .body = {Kind::length, 5}}, &body, outcome, is_done));
  pass(5ms);
  asking.cancel();
  connection_.reset();
  pass(10ms);
  EXPECT_TRUE(lost_);
}

}  // namespace
}  // namespace sluice::http::client
