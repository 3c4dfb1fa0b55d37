#include "http/h1/connection.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"
#include "http/claims.h"
#include "http/identity.h"
#include "http/server.h"
#include "http/spans_for_tests.h"
#include "net/stream.h"

namespace sluice::http {
namespace {

using core::Async;
using core::Task;

// Runs a coroutine for every request and counts those that have begun, have finished, and are alive.
class TestHandler final : public Handler {
 public:
  using Run = Task<Response> (*)(core::Reactor& reactor, Exchange& exchange, std::string& seen);

  TestHandler(core::Reactor& reactor, Run run) : reactor_(reactor), run_(run) {}
  Async<Response> handle(Exchange& exchange) override { return count(exchange); }

  int begun = 0;
  int finished = 0;
  int alive = 0;
  std::string seen;  // recorded by the coroutine

 private:
  Task<Response> count(Exchange& exchange) {
    struct Alive {
      int& count;
      explicit Alive(int& counted) : count(counted) { ++count; }
      Alive(const Alive&) = delete;
      ~Alive() { --count; }
    } alive_here(alive);
    ++begun;
    Response response = co_await run_(reactor_, exchange, seen);
    ++finished;
    co_return response;
  }

  core::Reactor& reactor_;
  Run run_;
};

struct Statuses final : Observer {
  void completed(const Completion& completion) override {
    list.push_back(completion.status);
    broken.push_back(completion.broken);
  }
  std::vector<int> list;
  std::vector<bool> broken;
};

constexpr Duration long_time = 1h;

Task<Response> only_wait(core::Reactor& reactor, Exchange&, std::string&) {
  co_await core::Sleep(reactor, reactor.now() + long_time);
  co_return Response{};
}

Task<void> read_all(Request& request, std::string& into) {
  for (;;) {
    auto piece = co_await request.body->read();
    if (!piece) into += "!";
    if (!piece || piece->empty()) co_return;
    into += *piece;
  }
}

Task<Response> read_then_wait(core::Reactor& reactor, Exchange& exchange, std::string& seen) {
  Request& request = exchange.request;
  co_await read_all(request, seen);
  co_await core::Sleep(reactor, reactor.now() + long_time);
  co_return Response{};
}

Task<Response> wait_then_echo(core::Reactor& reactor, Exchange& exchange, std::string& seen) {
  Request& request = exchange.request;
  co_await core::Sleep(reactor, reactor.now() + 5s);
  co_await read_all(request, seen);
  co_await core::Sleep(reactor, reactor.now() + 5s);
  Response response;
  Buffer body;
  body.append(seen);
  response.body = std::move(body);
  co_return response;
}

// A server with one connection.
class Leaving : public testing::Test {
 protected:
  explicit Leaving(const core::Faults& faults = {}, std::uint64_t seed = 7)
      : reactor_(seed, faults), client_(reactor_) {}

  void start(TestHandler::Run run) {
    handler_ = std::make_unique<TestHandler>(reactor_, run);
    options_.half_close_grace = 2s;
    server_ = std::make_unique<Server>(reactor_, dispatcher(), options_, &statuses_);
    const auto address = server_->listen(*core::Address::parse("127.0.0.1:0"));
    ASSERT_TRUE(address);
    address_ = *address;
    tasks_.spawn([](net::Stream& client, core::Address to) -> Task<void> {
      EXPECT_TRUE(co_await client.connect(to, never));
    }(client_, address_));
    pass(10ms);
  }
  void send(std::string bytes) {
    tasks_.spawn([](net::Stream& client, std::string text) -> Task<void> {
      iovec part{text.data(), text.size()};
      (void)co_await client.write({&part, 1}, long_time);
    }(client_, std::move(bytes)));
    pass(10ms);
  }
  std::string receive() {
    std::string text;
    tasks_.spawn([](net::Stream& client, core::Reactor& reactor, std::string& into) -> Task<void> {
      Buffer bytes;
      for (;;) {
        const auto got = co_await client.read(bytes, 4096, reactor.now() + 50ms);
        if (!got || *got == 0) co_return;
        into += bytes.view();
        bytes.clear();
      }
    }(client_, reactor_, text));
    pass(200ms);
    return text;
  }
  std::string all() {
    std::string all;
    for (std::string more = receive(); !more.empty(); more = receive()) all += more;
    return all;
  }
  void reset() {
    reactor_.reset_on_close(client_.handle());
    client_.close();
    pass(10ms);
  }
  void pass(Duration time) {
    const Instant until = reactor_.now() + time;
    while (reactor_.now() < until) {
      reactor_.turn(until);
      if (reactor_.deadlocked()) return;
    }
  }
  void expect_cancelled(int finished = 0) {
    EXPECT_EQ(handler_->begun, 1);
    EXPECT_EQ(handler_->finished, finished);
    EXPECT_EQ(handler_->alive, 0);
    EXPECT_EQ(server_->counters().open, 0u);
    EXPECT_EQ(statuses_.list, std::vector<int>{499});
  }

  virtual Handler& dispatcher() { return *handler_; }

  static constexpr const char* head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n";

  core::SimulatedReactor reactor_;
  ServerOptions options_;
  Statuses statuses_;
  std::unique_ptr<TestHandler> handler_;
  std::unique_ptr<Server> server_;
  core::Address address_;
  net::Stream client_;
  core::TaskGroup tasks_;
};

TEST_F(Leaving, WhileTheHandlerWaitsBeforeTheBody) {
  start(only_wait);
  send(std::string(head) + "\r\nhel");
  EXPECT_EQ(handler_->alive, 1);
  reset();
  expect_cancelled();
}

TEST_F(Leaving, WhileTheHandlerWaitsBehindTheBody) {
  start(read_then_wait);
  send(std::string(head) + "\r\nhel");
  send("lo");
  EXPECT_EQ(handler_->seen, "hello");
  EXPECT_EQ(handler_->alive, 1);
  reset();
  expect_cancelled();
}

TEST_F(Leaving, WhileTheHandlerReadsTheBody) {
  start([](core::Reactor&, Exchange& exchange, std::string& seen) -> Task<Response> {
    Request& request = exchange.request;
    co_await read_all(request, seen);
    co_return Response{};
  });
  send(std::string(head) + "\r\nhel");
  reset();
  EXPECT_EQ(handler_->seen, "hel!");  // the handler sees the error itself
  EXPECT_EQ(handler_->finished, 1);
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(statuses_.list, std::vector<int>{400});
}

// With some of these seeds, the drain meets a connection whose socket has received half of a head that the server has
// not read. The rest may take as long as without the drain.
class DrainWhileAHeadArrives : public Leaving, public testing::WithParamInterface<int> {
 protected:
  DrainWhileAHeadArrives() : Leaving({.would_block = 0.5}, static_cast<std::uint64_t>(GetParam())) {}
};

TEST_P(DrainWhileAHeadArrives, TheRequestIsServed) {
  start([](core::Reactor&, Exchange&, std::string&) -> Task<Response> { co_return Response{}; });
  const std::string request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  send(request);
  EXPECT_TRUE(receive().starts_with("HTTP/1.1 200 "));
  std::string half = request.substr(0, 10);
  tasks_.spawn([](net::Stream& client, std::string& text) -> Task<void> {
    iovec part{text.data(), text.size()};
    (void)co_await client.write({&part, 1}, long_time);
  }(client_, half));
  pass(600us);
  server_->drain();
  pass(1s);
  const bool closed_before = server_->drained();
  if (!closed_before) send(request.substr(10));
  EXPECT_EQ(statuses_.list, std::vector<int>(closed_before ? 1 : 2, 200));
  EXPECT_TRUE(server_->drained() || (pass(10s), server_->drained()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, DrainWhileAHeadArrives, testing::Range(0, 50));

// The client does not know yet that the server ends, and its request may be on the way.
class DrainOfANewConnection : public Leaving {
 protected:
  DrainOfANewConnection() {
    start([](core::Reactor&, Exchange&, std::string&) -> Task<Response> { co_return Response{}; });
    pass(10ms);
    server_->drain();
    pass(100ms);
    EXPECT_FALSE(server_->drained());
  }
};

TEST_F(DrainOfANewConnection, ItsFirstRequestIsServed) {
  send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string answer = receive();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos) << answer;
  EXPECT_TRUE(server_->drained() || (pass(10s), server_->drained()));
}

TEST_F(DrainOfANewConnection, ItIsClosedIfNoRequestComes) {
  pass(2s);
  EXPECT_TRUE(server_->drained());
  EXPECT_EQ(statuses_.list, std::vector<int>());
}

// Requests that hold a pin.
class CutRequests : public Leaving {
 protected:
  struct Held final : Pinned {
    void unpinned() override {}
  };
  struct Holding final : Handler {
    explicit Holding(CutRequests& in) : test(in) {}
    Async<Response> handle(Exchange& exchange) override {
      exchange.pin.hold(test.held_);
      return test.handler_->handle(exchange);
    }
    CutRequests& test;
  };
  // Requests with another pin are not cut.
  void cut() {
    Held other;
    server_->cut_pinned(other);
    pass(10ms);
    EXPECT_EQ(handler_->alive, 1);
    EXPECT_EQ(held_.pins(), 1u);
    server_->cut_pinned(held_);
    pass(10ms);
    EXPECT_EQ(held_.pins(), 0u);
    EXPECT_EQ(receive(), "");
  }
  Handler& dispatcher() override { return holding_; }

  Held held_;
  Holding holding_{*this};
};

TEST_F(CutRequests, EndThoughTheyWaitForNoBytes) {
  start(only_wait);
  send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  cut();
  expect_cancelled();
}

TEST_F(CutRequests, EndBeforeTheirBodyIsRead) {
  start(only_wait);
  send(std::string(head) + "\r\nhel");
  cut();
  expect_cancelled();
}

// The client gets no 408, and the connection does not linger.
TEST_F(CutRequests, EndWithinTheirBody) {
  start([](core::Reactor&, Exchange& exchange, std::string& seen) -> Task<Response> {
    Request& request = exchange.request;
    co_await read_all(request, seen);
    co_return Response{};
  });
  send(std::string(head) + "\r\nhel");
  cut();
  EXPECT_EQ(handler_->seen, "hel!");
  expect_cancelled(1);
}

// The request is cut while the handler reads its body and then waits for something else.
TEST_F(CutRequests, EndBehindTheirBody) {
  start(read_then_wait);
  send(std::string(head) + "\r\nhel");
  cut();
  EXPECT_EQ(handler_->seen, "hel!");
  expect_cancelled();
}

// The timeout of the next request's head begins when the client has received the previous response.
class SlowToTake : public Leaving {
 protected:
  SlowToTake() : Leaving({.buffer = 4096}) { start(long_answer); }
  static Task<Response> long_answer(core::Reactor&, Exchange&, std::string&) {
    Response response;
    Buffer body;
    body.append(std::string(10'000, 'x'));
    response.body = std::move(body);
    co_return response;
  }
};

TEST_F(SlowToTake, IsNotLateWithTheNextHead) {
  send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT");
  pass(options_.header_timeout + 1s);
  const std::string first = receive();
  EXPECT_EQ(first.find("408"), std::string::npos);
  EXPECT_TRUE(first.ends_with("xx"));
  send("TP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(receive().starts_with("HTTP/1.1 200"));
}

// A client that sends as fast as the server reads must not block the loop for others.
class LeavingARoomyPipe : public Leaving {
 protected:
  LeavingARoomyPipe() : Leaving({.buffer = 4 << 20}) { options_.body_limit = 4 << 20; }
};

TEST_F(LeavingARoomyPipe, ALongBodyGivesWayToOthers) {
  start(read_then_wait);
  constexpr std::size_t size = 2 << 20;
  tasks_.spawn([](net::Stream& client) -> Task<void> {
    std::string text =
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" + std::string(size, 'x');
    iovec part{text.data(), text.size()};
    (void)co_await client.write({&part, 1}, long_time);
  }(client_));
  std::size_t most = 0;
  for (int turns = 0; handler_->seen.size() < size && turns < 100'000; ++turns) {
    const std::size_t before = handler_->seen.size();
    reactor_.turn(reactor_.now() + 1ms);
    most = std::max(most, handler_->seen.size() - before);
  }
  EXPECT_EQ(handler_->seen.size(), size);
  EXPECT_LE(most, 64u * 1024) << "in one turn";
}

// Only a small part of the rest of a refused body is read, however fast it arrives. The client can still read its
// response.
class SendingOn : public Leaving {
 protected:
  static constexpr std::size_t pipe = 64 * 1024;
  SendingOn() : Leaving({.buffer = pipe}) {}
};

TEST_F(SendingOn, BehindARefusalIsReadOnlyALittle) {
  start(only_wait);
  constexpr std::size_t size = 8 << 20;
  send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" + std::string(size, 'x'));
  EXPECT_TRUE(receive().starts_with("HTTP/1.1 413 "));
  EXPECT_GE(client_.handle().sent, 256u * 1024);
  EXPECT_LE(client_.handle().sent, 256u * 1024 + 4 * pipe);
  EXPECT_EQ(server_->counters().open, 1u) << "the client may still have to read the answer";
  client_.cut();
  pass(10ms);
  client_.close();
  pass(10ms);
  EXPECT_EQ(server_->counters().open, 0u) << "nobody waits for a client that has gone";
}

TEST_F(Leaving, ByEndingItsSide) {
  start(read_then_wait);
  send(std::string(head) + "\r\nhello");
  reactor_.shutdown_write(client_.handle());
  pass(1900ms);
  EXPECT_EQ(handler_->alive, 1) << "the grace period is not over";
  pass(200ms);
  expect_cancelled();
}

TEST_F(Leaving, BetweenTheErrorOfTheBodyAndTheAnswer) {
  start(read_then_wait);  // continues to wait although the body has failed
  send(std::string(head) + "\r\nhel");
  reset();
  EXPECT_EQ(handler_->seen, "hel!");
  pass(10ms);
  expect_cancelled();
}

TEST_F(Leaving, NotAtAll) {
  start(wait_then_echo);
  send(std::string(head) + "\r\nhel");
  pass(6s);
  send("lo");
  pass(6s);
  const std::string answer = receive();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nhello")) << answer;
  EXPECT_EQ(handler_->finished, 1);
  EXPECT_EQ(server_->counters().open, 1u);
}

// Records whether the request has attributes of an earlier one, and then sets its own.
Task<Response> learn(core::Reactor& reactor, Exchange& exchange, std::string& seen) {
  Request& request = exchange.request;
  const bool is_new =
      exchange.attributes.find<Identity>() == nullptr && request.extension.empty() && request.route == 0;
  seen += is_new ? "new " : "FOREIGN ";
  exchange.attributes.set(Identity{.claims = Claims::parse("{}"), .expires_s = 1});
  request.extension = ".csv";
  request.route = 7;
  if (request.path == "/waits") co_await core::Sleep(reactor, reactor.now() + long_time);
  co_return Response{};
}

TEST_F(Leaving, WhatWasLearnedEndsWithItsRequest) {
  const auto get = [](std::string_view path) { return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n"; };
  start(learn);
  send(get("/") + get("/"));  // first both in one piece, then one on the idle connection
  send(get("/"));
  EXPECT_EQ(handler_->seen, "new new new ");
  send(get("/waits"));
  reset();
  EXPECT_EQ(statuses_.list, (std::vector{200, 200, 200, 499}));
  net::Stream next(reactor_);
  tasks_.spawn([](net::Stream& client, core::Address to, std::string text) -> Task<void> {
    EXPECT_TRUE(co_await client.connect(to, never));
    iovec part{text.data(), text.size()};
    EXPECT_TRUE(co_await client.write({&part, 1}, long_time));
  }(next, address_, get("/")));
  pass(10ms);
  EXPECT_EQ(handler_->seen, "new new new new new ");
}

TEST_F(Leaving, WithoutHavingBeenToldToContinue) {
  start(only_wait);
  send(std::string(head) + "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(receive(), "");
  EXPECT_EQ(handler_->alive, 1);
  reset();
  expect_cancelled();
}

TEST_F(Leaving, HavingBeenToldToContinue) {
  start(read_then_wait);
  send(std::string(head) + "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(receive(), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(handler_->alive, 1);
  reset();
  EXPECT_EQ(handler_->seen, "!");
  pass(10ms);
  expect_cancelled();
}

TEST_F(Leaving, HavingContinued) {
  start(read_then_wait);
  send(std::string(head) + "Expect: 100-continue\r\n\r\n");
  send("hello");
  EXPECT_EQ(receive(), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(handler_->seen, "hello");
  EXPECT_EQ(handler_->alive, 1);
  reset();
  expect_cancelled();
}

// The client has already sent the whole body, so 100 Continue is not sent.
TEST_F(Leaving, NotAfterABodyThatCameUnasked) {
  start([](core::Reactor&, Exchange& exchange, std::string& seen) -> Task<Response> {
    Request& request = exchange.request;
    co_await read_all(request, seen);
    co_return Response{};
  });
  const std::string expecting = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n";
  send(expecting + "Content-Length: 5\r\n\r\nhello" + expecting +
       "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
  const std::string answers = receive();
  EXPECT_EQ(answers.find("100 Continue"), std::string::npos) << answers;
  EXPECT_EQ(answers.find("onnection: close"), std::string::npos) << answers;
  EXPECT_EQ(handler_->seen, "hellohi");
  EXPECT_EQ(handler_->finished, 2);
  EXPECT_EQ(server_->counters().open, 1u);
}

TEST_F(Leaving, AChunkOverTheLimitIsRefusedBeforeItComes) {
  start(read_then_wait);
  send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n100000\r\n");
  EXPECT_EQ(handler_->seen, "hello!");
}

TEST_F(Leaving, ALongerBodyIsTakenOfAHandlerThatAllowsIt) {
  options_.body_limit = 10;
  options_.most_body = 15;
  start([](core::Reactor&, Exchange& exchange, std::string& seen) -> Task<Response> {
    Request& request = exchange.request;
    if (request.path == "/more") request.body->allow_more(1000);
    if (request.path != "/none") co_await read_all(request, seen);
    seen += ';';
    co_return Response{};
  });
  send("POST /more HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n\r\n123456789012345");
  EXPECT_EQ(handler_->seen, "123456789012345;");
  send("POST /more HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n123456789012345\r\n0\r\n\r\n");
  EXPECT_EQ(handler_->seen, "123456789012345;123456789012345;");
  send("POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345");
  EXPECT_EQ(handler_->begun, 3);
  send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n12345678901");
  EXPECT_EQ(handler_->seen, "123456789012345;123456789012345;;!;");
  EXPECT_EQ(statuses_.list, (std::vector<int>{200, 200, 200, 413}));
}

TEST_F(Leaving, ABodyLongerThanAnyHandlerAllowsMeetsNone) {
  options_.body_limit = 10;
  options_.most_body = 15;
  start(read_then_wait);
  send("POST /more HTTP/1.1\r\nHost: a\r\nContent-Length: 16\r\n\r\n");
  EXPECT_EQ(handler_->begun, 0);
  EXPECT_EQ(statuses_.list, std::vector<int>{413});
}

class SlowBody : public Leaving {
 protected:
  void begin() {
    start(read_then_wait);
    send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
  }
  // Sends this many bytes each second. Returns after how many seconds the server stopped reading.
  int drip(std::size_t bytes, int most_seconds) {
    for (int second = 0; second < most_seconds; ++second) {
      if (handler_->seen.ends_with('!')) return second;
      send(std::string(bytes, 'x'));
      pass(1s);
    }
    return most_seconds;
  }
};

TEST_F(SlowBody, IsTakenWhereItIsNotSlowerThanItMayBe) {
  begin();
  EXPECT_EQ(drip(250, 300), 300);
  EXPECT_EQ(handler_->seen.size(), 75'000u);
}

TEST_F(SlowBody, IsRefusedWhenTooLittleHasCome) {
  begin();
  const int seconds = drip(120, 300);  // half of the required rate, so it takes twice the time
  EXPECT_GE(seconds, 18);
  EXPECT_LE(seconds, 22);
}

TEST_F(SlowBody, IsRefusedAlsoAfterAGoodBeginning) {
  begin();
  EXPECT_EQ(drip(1000, 20), 20);
  EXPECT_LE(drip(1, 300), 12);
}

std::string text_of(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('!' + i * i % 89);
  return text;
}

// ---- Responses that are cut by the owner of their body ----

// The whole body of /bytes, /spans and /stream.
const auto kept = std::make_shared<const std::string>(text_of(20 << 20));

class KeptSource final : public BodySource {
 public:
  static inline std::size_t pulled = 0;  // bytes pulled from the last source
  KeptSource() { pulled = 0; }
  Async<Result<Progress>> pull(Buffer& out) override {
    out.append(std::string_view(*own_).substr(given_, 10'000));
    pulled = given_ += 10'000;
    return Result<Progress>(given_ < own_->size() ? Progress::more : Progress::done);
  }
  const void* owner() const override { return own_.get(); }

 private:
  const std::shared_ptr<const std::string> own_ = kept;
  std::size_t given_ = 0;
};

Task<Response> answer_of_what_is_kept(core::Reactor&, Exchange& exchange, std::string&) {
  Request& request = exchange.request;
  Response response;
  if (request.path == "/bytes") {
    response.body = SharedBytes{kept, *kept};
  } else if (request.path == "/spans") {
    SharedSpans spans(kept);
    for (std::size_t i = 0; i < kept->size(); i += 5000) spans.add(std::string_view(*kept).substr(i, 4999));
    response.body = std::move(spans);
  } else {
    response.body = std::make_unique<KeptSource>();
  }
  co_return response;
}

// A stream of known length that may fail.
class SizedSource final : public BodySource {
 public:
  explicit SizedSource(bool breaks) : breaks_(breaks) {}
  std::optional<std::uint64_t> size() const override { return 6; }
  Async<Result<Progress>> pull(Buffer& out) override {
    if (breaks_ && given_ == 3) return Result<Progress>(fail(Errc::closed));
    out.append(std::string_view("abcdef").substr(given_, 3));
    given_ += 3;
    return Result<Progress>(given_ == 6 ? Progress::done : Progress::more);
  }

 private:
  const bool breaks_;
  std::size_t given_ = 0;
};

class SizedStream : public Leaving {
 protected:
  SizedStream() {
    start([](core::Reactor&, Exchange& exchange, std::string&) -> Task<Response> {
      Request& request = exchange.request;
      Response response;
      response.body = std::make_unique<SizedSource>(request.path == "/breaks");
      co_return response;
    });
  }
};

TEST_F(SizedStream, IsSentWithItsLength) {
  for (const char* method : {"GET", "HEAD"}) {
    send(std::string(method) + " / HTTP/1.1\r\nHost: a\r\n\r\n");
    const std::string text = receive();
    EXPECT_NE(text.find("\r\nContent-Length: 6\r\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("chunked"), std::string::npos);
    EXPECT_EQ(text.ends_with("\r\n\r\nabcdef"), *method == 'G') << text;
  }
  EXPECT_EQ(server_->counters().open, 1u);
  send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(receive().ends_with("Connection: keep-alive\r\n\r\nabcdef"));
  EXPECT_EQ(server_->counters().open, 1u);
  EXPECT_EQ(statuses_.broken, std::vector<bool>(3, false));
}

TEST_F(SizedStream, EndsTheConnectionWhereItBreaks) {
  send("GET /breaks HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(receive().ends_with("\r\n\r\nabc"));
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(statuses_.broken, std::vector<bool>{true});
}

// Its first bytes come after an hour, or in the same turn of the loop but from a Task. "/breaks": they never come.
class LateSource final : public BodySource {
 public:
  LateSource(core::Reactor& reactor, std::string_view path) : reactor_(reactor), path_(path) {}
  std::optional<std::uint64_t> size() const override {
    return path_ == "/sized" ? std::optional<std::uint64_t>(4) : std::nullopt;
  }
  Async<Result<Progress>> pull(Buffer& out) override { return later(out); }
  const void* owner() const override { return &reactor_; }

 private:
  Task<Result<Progress>> later(Buffer& out) {
    if (path_ != "/soon") co_await core::Sleep(reactor_, reactor_.now() + long_time);
    if (path_ == "/breaks") co_return fail(Errc::closed);
    out.append("late");
    co_return Progress::done;
  }

  core::Reactor& reactor_;
  const std::string path_;
};

class LateStream : public Leaving {
 protected:
  explicit LateStream(const core::Faults& faults = {}) : Leaving(faults) {
    start([](core::Reactor& reactor, Exchange& exchange, std::string&) -> Task<Response> {
      Request& request = exchange.request;
      Response response;
      if (request.path == "/first") {
        Buffer body;
        body.append(std::string(10'000, 'x'));
        response.body = std::move(body);
      } else {
        response.body = std::make_unique<LateSource>(reactor, request.path);
      }
      co_return response;
    });
  }
  void expect_early_heads() {
    for (const std::string_view path : {"/chunked", "/sized", "/unframed"}) {
      const std::string_view version = path == "/unframed" ? "1.0" : "1.1";
      send("GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET " + std::string(path) + " HTTP/" + std::string(version) +
           "\r\nHost: a\r\n\r\n");
      const std::string early = all();
      EXPECT_TRUE(early.contains(std::string(10'000, 'x') + "HTTP/1.1 200 OK\r\n")) << path;
      EXPECT_TRUE(early.ends_with("\r\n\r\n")) << path;
      pass(long_time);
      EXPECT_EQ(all(), path == "/chunked" ? "00000004\r\nlate\r\n0\r\n\r\n" : "late") << path;
    }
    EXPECT_EQ(statuses_.broken, std::vector<bool>(6, false));
  }
};
struct LateStreamInBadWeather : LateStream {
  LateStreamInBadWeather()
      : LateStream({.short_read = 0.3, .short_write = 0.5, .would_block = 0.3, .split = 0.3, .buffer = 3000}) {}
};

TEST_F(LateStream, ItsHeadDoesNotWait) { expect_early_heads(); }

TEST_F(LateStreamInBadWeather, ItsHeadDoesNotWait) { expect_early_heads(); }

TEST_F(LateStream, ItsHeadDoesNotLeaveAloneInTheSameTurn) {
  const std::uint64_t before = reactor_.counters().segments;
  send("GET /soon HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_TRUE(all().ends_with("\r\n\r\n00000004\r\nlate\r\n0\r\n\r\n"));
  EXPECT_EQ(reactor_.counters().segments - before, 2u) << "one for the request, and one for the answer";
}

TEST_F(LateStream, ItsHeadIsFollowedByTheEndIfTheBodyBreaks) {
  send("GET /breaks HTTP/1.1\r\nHost: a\r\n\r\n");
  const std::string early = all();
  EXPECT_TRUE(early.starts_with("HTTP/1.1 200 OK\r\n")) << early;
  pass(long_time);
  EXPECT_EQ(all(), "");
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(statuses_.broken, std::vector<bool>{true});
}

// ---- Responses to requests whose body has not arrived completely ----

// /small/N, /large/N and /stream/N read N bytes of the body, /late/N sends its body after an hour.
Task<Response> answer_early(core::Reactor& reactor, Exchange& exchange, std::string&) {
  const std::string_view path = exchange.request.path;
  std::size_t wanted = 0;
  const std::size_t digits = path.rfind('/') + 1;
  (void)std::from_chars(path.data() + digits, path.data() + path.size(), wanted);
  for (std::size_t read = 0; read < wanted;) {
    const auto piece = co_await exchange.request.body->read();
    if (!piece || piece->empty()) co_return problem(500);
    read += piece->size();
  }
  Response response;
  response.status = 403;
  if (path.starts_with("/stream/")) {
    response.body = std::make_unique<SizedSource>(false);
  } else if (path.starts_with("/late/")) {
    response.body = std::make_unique<LateSource>(reactor, path);
  } else {
    Buffer body;
    body.append(std::string(path.starts_with("/large/") ? 100'000 : 10, 'x'));
    response.body = std::move(body);
  }
  co_return response;
}

class EarlyAnswers : public Leaving {
 protected:
  explicit EarlyAnswers(const core::Faults& faults = {.buffer = 4096}) : Leaving(faults) { start(answer_early); }

  void expect_answers_at_every_step(std::string_view framing, std::string_view body,
                                    std::size_t (*arrived)(std::size_t)) {
    for (std::size_t step = 0; step < body.size(); ++step) {
      for (const std::size_t read : {std::size_t{0}, arrived(step)}) {
        const std::string path = "/small/" + std::to_string(read);
        send("POST " + path + " HTTP/1.1\r\nHost: a\r\n" + std::string(framing) + "\r\n\r\n" +
             std::string(body.substr(0, step)));
        const std::string early = all();
        EXPECT_TRUE(early.starts_with("HTTP/1.1 403 ")) << path << " at " << step << ": " << early.substr(0, 100);
        EXPECT_FALSE(early.contains("onnection: close")) << path << " at " << step;
        EXPECT_TRUE(early.ends_with("xxxxxxxxxx")) << path << " at " << step;
        send(std::string(body.substr(step)));
        ASSERT_EQ(all(), "") << path << " at " << step;
      }
    }
    EXPECT_EQ(server_->counters().open, 1u);
    EXPECT_EQ(statuses_.list, std::vector<int>(2 * body.size(), 403));
    EXPECT_EQ(statuses_.broken, std::vector<bool>(2 * body.size(), false));
  }
  void expect_the_last(std::string_view path, std::string_view end) {
    send_all_but_ten(path, 10);
    const std::string answer = all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 "));
    EXPECT_TRUE(answer.contains("onnection: close"));
    EXPECT_TRUE(answer.ends_with(end));
    send("bbbbbbbbbbGET /small/0 HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(all(), "");
    pass(3s);
    EXPECT_EQ(server_->counters().open, 0u);
    EXPECT_EQ(statuses_.list, std::vector<int>{403});
  }
  // A request whose body has 10 bytes more than have been sent.
  void send_all_but_ten(std::string_view path, std::size_t size) {
    send("POST " + std::string(path) + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(size + 10) +
         "\r\n\r\n" + std::string(size, 'b'));
  }
};
struct EarlyAnswersWithRoom : EarlyAnswers {
  EarlyAnswersWithRoom() : EarlyAnswers({.buffer = 200'000}) {}
};
struct EarlyAnswersInBadWeather : EarlyAnswers {
  EarlyAnswersInBadWeather()
      : EarlyAnswers({.short_read = 0.3, .short_write = 0.5, .would_block = 0.3, .split = 0.3, .buffer = 3000}) {}
};

constexpr std::string_view early_chunks = "4\r\nhell\r\n6;a=b\r\no worl\r\n0\r\nX-A: b\r\n\r\n";
std::size_t arrived_of_chunks(std::size_t step) { return step < 7 ? 0 : 4; }
std::size_t arrived_of_length(std::size_t step) { return step; }

TEST_F(EarlyAnswers, DoNotWaitForABodyWithLength) {
  expect_answers_at_every_step("Content-Length: 10", "hello worl", arrived_of_length);
}

TEST_F(EarlyAnswers, DoNotWaitForChunks) {
  expect_answers_at_every_step("Transfer-Encoding: chunked", early_chunks, arrived_of_chunks);
}

TEST_F(EarlyAnswersInBadWeather, DoNotWaitForABodyWithLength) {
  expect_answers_at_every_step("Content-Length: 10", "hello worl", arrived_of_length);
}

TEST_F(EarlyAnswersInBadWeather, DoNotWaitForChunks) {
  expect_answers_at_every_step("Transfer-Encoding: chunked", early_chunks, arrived_of_chunks);
}

// The client reads only when it has sent everything, and both directions have room for less.
TEST_F(EarlyAnswers, DoNotKeepAClientThatOnlySendsWaiting) {
  for (const char* path : {"/small/0", "/small/70000"}) {
    send_all_but_ten(path, 200'000);
    pass(1s);
    send("bbbbbbbbbb");
    const std::string answer = all();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 ")) << path;
    send("GET /small/0 HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_TRUE(all().starts_with("HTTP/1.1 403 ")) << path;
  }
  EXPECT_EQ(server_->counters().open, 1u);
}

// A long answer, or one whose length is unknown, ends the connection.
TEST_F(EarlyAnswers, AreTheLastIfTheyAreLong) { expect_the_last("/large/0", "xxxxxxxxxx"); }
TEST_F(EarlyAnswers, AreTheLastIfTheirLengthIsUnknown) { expect_the_last("/stream/0", "abcdef"); }

// The rest has arrived before the handler has answered.
TEST_F(EarlyAnswersWithRoom, AreNotTheLastIfTheRestIsThere) {
  send("POST /large/0 HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'b'));
  const std::string answer = all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 ")) << answer.substr(0, 100);
  EXPECT_FALSE(answer.contains("onnection: close"));
}

TEST_F(EarlyAnswers, AreTheLastBeforeAnInvalidRest) {
  send("POST /small/0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe");
  EXPECT_TRUE(all().starts_with("HTTP/1.1 403 "));
  send("lloGET /small/0 HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(all(), "");
  pass(3s);
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(statuses_.list, std::vector<int>{403});
}

// An invalid body that arrives with its head is refused.
TEST_F(EarlyAnswers, GiveWayToARefusalThatIsAlreadyDue) {
  send("POST /small/0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n");
  EXPECT_TRUE(all().starts_with("HTTP/1.1 400 "));
  EXPECT_EQ(statuses_.list, std::vector<int>{400});
}

TEST_F(EarlyAnswers, AreFollowedByTheEndIfTheRestDoesNotCome) {
  send_all_but_ten("/small/0", 10);
  EXPECT_TRUE(all().starts_with("HTTP/1.1 403 "));
  pass(options_.body_timeout - 1s);
  EXPECT_EQ(server_->counters().open, 1u);
  pass(4s);
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(all(), "");
  EXPECT_EQ(statuses_.list, std::vector<int>{403});
}

TEST_F(EarlyAnswers, AreFollowedByTheEndIfTheRestTakesTooLong) {
  send("POST /small/0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_TRUE(all().starts_with("HTTP/1.1 403 "));
  int seconds = 0;
  for (; seconds < 100 && server_->counters().open != 0; ++seconds) {
    send("200\r\n" + std::string(512, 'b') + "\r\n");  // faster than the slowest client may be
    pass(1s);
  }
  EXPECT_GE(seconds, 29);
  EXPECT_LE(seconds, 34);
}

TEST_F(EarlyAnswers, AreFollowedByTheEndIfTheRestIsLong) {
  send("POST /small/0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  EXPECT_TRUE(all().starts_with("HTTP/1.1 403 "));
  for (int i = 0; i < 36; ++i) send("8000\r\n" + std::string(0x8000, 'b') + "\r\n");
  pass(3s);
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(statuses_.list, std::vector<int>{403});
}

TEST_F(EarlyAnswers, DoNotDelayADrain) {
  send_all_but_ten("/small/0", 10);
  EXPECT_TRUE(all().starts_with("HTTP/1.1 403 "));
  server_->drain();
  pass(10ms);
  reactor_.shutdown_write(client_.handle());
  pass(10ms);
  EXPECT_TRUE(server_->drained());
}

// The client leaves while the response is not ready and the rest of the body is still to come.
TEST_F(EarlyAnswers, AreCancelledWhenTheirClientLeaves) {
  send_all_but_ten("/late/0", 10);
  EXPECT_TRUE(all().starts_with("HTTP/1.1 403 "));
  reset();
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(statuses_.broken, std::vector<bool>{true});
}

TEST_F(EarlyAnswers, AreCancelledAfterTheGraceOfAHalfClose) {
  send_all_but_ten("/late/0", 10);
  EXPECT_TRUE(all().starts_with("HTTP/1.1 403 "));
  reactor_.shutdown_write(client_.handle());
  pass(options_.half_close_grace + 100ms);
  EXPECT_EQ(statuses_.broken, std::vector<bool>{true});
}

TEST_F(EarlyAnswers, AreCutWhileTheRestComes) {
  send_all_but_ten("/late/0", 10);
  EXPECT_TRUE(all().starts_with("HTTP/1.1 403 "));
  send("bbb");
  server_->cut_answers_of(&reactor_);
  pass(10ms);
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(statuses_.broken, std::vector<bool>{true});
}

class CutAnswers : public Leaving {
 protected:
  CutAnswers() { start(answer_of_what_is_kept); }
};
class EachCutAnswer : public CutAnswers, public testing::WithParamInterface<const char*> {};
struct InARoomyPipe : Leaving {
  InARoomyPipe() : Leaving({.buffer = 64 << 20}) { start(answer_of_what_is_kept); }
};

TEST_P(EachCutAnswer, LetsGoAtOnceAndItsClientCanTell) {
  send(GetParam());
  EXPECT_EQ(kept.use_count(), 2) << "the client takes nothing";
  server_->cut_answers_of(this);
  pass(10ms);
  EXPECT_EQ(kept.use_count(), 2);
  server_->cut_answers_of(kept.get());
  pass(10ms);
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_EQ(server_->counters().open, 0u);
  ASSERT_EQ(statuses_.broken.size(), 1u);
  EXPECT_TRUE(statuses_.broken[0]);
  bool failed = false;
  tasks_.spawn([](net::Stream& client, bool& result) -> Task<void> {
    Buffer bytes;
    for (;;) {
      const auto got = co_await client.read(bytes, 1 << 20, never);
      if (got && *got != 0) continue;
      result = !got;
      EXPECT_LT(bytes.size(), kept->size());
      EXPECT_FALSE(bytes.view().ends_with("\r\n0\r\n\r\n"));
      co_return;
    }
  }(client_, failed));
  pass(200ms);
  EXPECT_TRUE(failed);
}

// The response waits while the server reads and drops the rest of a request body that the handler has not read.
TEST_F(CutAnswers, LetGoWhileTheirRequestsBodyComes) {
  const auto half = [](const char* path) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc";
  };
  send(half("/bytes"));
  EXPECT_EQ(kept.use_count(), 2);
  send("def");
  server_->cut_answers_of(kept.get());
  pass(10ms);
  EXPECT_EQ(kept.use_count(), 1);
  EXPECT_EQ(server_->counters().open, 0u);
  EXPECT_EQ(receive(), "");
  EXPECT_TRUE(statuses_.broken.at(0));
}

// The response has been sent, and the connection lingers. There is nothing to cut, and nothing is kept alive.
TEST_F(CutAnswers, AnAnswerThatHasBeenGivenIsNotCut) {
  for (const char* path : {"/stream", "/bytes", "/spans"}) {
    net::Stream client(reactor_);
    tasks_.spawn([](net::Stream& stream, core::Address to,
                    std::string text) -> Task<void> {
      EXPECT_TRUE(co_await stream.connect(to, never));
      iovec part{text.data(), text.size()};
      (void)co_await stream.write({&part, 1}, long_time);
    }(client, address_,
                                      "HEAD " + std::string(path) +
                                          " HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"));
    pass(10ms);
    EXPECT_EQ(server_->counters().open, 2u) << "it lingers";
    EXPECT_EQ(kept.use_count(), 1) << path;
    server_->cut_answers_of(kept.get());
    pass(10ms);
    EXPECT_FALSE(statuses_.broken.back());
    client.close();
    pass(3s);
  }
}

// For HTTP/1.0 the end of the connection is the end of the body. While the server waits for the client to see it, the
// body is not kept alive.
TEST_F(InARoomyPipe, WhatIsSentIsNotKept) {
  send("GET /stream HTTP/1.0\r\n\r\n");
  pass(200ms);
  EXPECT_EQ(KeptSource::pulled, kept->size() / 10'000 * 10'000 + 10'000);
  EXPECT_EQ(server_->counters().open, 1u) << "it lingers";
  EXPECT_EQ(kept.use_count(), 1);
}

// A client that reads everything at once must not block the loop for others.
TEST_F(InARoomyPipe, ALongStreamGivesWayToOthers) {
  tasks_.spawn([](net::Stream& client) -> Task<void> {
    std::string text = "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n";
    iovec part{text.data(), text.size()};
    (void)co_await client.write({&part, 1}, long_time);
  }(client_));
  std::size_t most = 0;
  KeptSource::pulled = 0;
  for (int turns = 0; KeptSource::pulled < kept->size() && turns < 100'000; ++turns) {
    const std::size_t before = KeptSource::pulled;
    reactor_.turn(reactor_.now() + 1ms);
    most = std::max(most, KeptSource::pulled - before);
  }
  EXPECT_GE(KeptSource::pulled, kept->size());
  EXPECT_LE(most, 600u * 1024) << "in one turn";
}

INSTANTIATE_TEST_SUITE_P(, EachCutAnswer,
                         testing::Values("GET /bytes HTTP/1.1\r\nHost: a\r\n\r\n", "GET /bytes HTTP/1.0\r\n\r\n",
                                         "GET /spans HTTP/1.1\r\nHost: a\r\n\r\n",
                                         "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n", "GET /stream HTTP/1.0\r\n\r\n"));

std::size_t take_number(std::string_view& path) {
  std::size_t number = 0;
  path.remove_prefix(1);
  path.remove_prefix(
      static_cast<std::size_t>(std::from_chars(path.data(), path.data() + path.size(), number).ptr - path.data()));
  return number;
}

// Serves /STATUS/BYTES/MOST: this many bytes, in pieces of up to MOST bytes.
Task<Response> answer_in_pieces(core::Reactor&, Exchange& exchange, std::string&) {
  Request& request = exchange.request;
  std::string_view path = request.path;
  Response response;
  response.status = static_cast<int>(take_number(path));
  const std::size_t size = take_number(path);
  response.body = in_pieces(text_of(size), take_number(path));
  co_return response;
}

class Pieces : public Leaving {
 protected:
  explicit Pieces(const core::Faults& faults = {}) : Leaving(faults) { start(answer_in_pieces); }

  std::string ask(std::string_view method, int status, std::size_t size, std::size_t most) {
    send(std::string(method) + " /" + std::to_string(status) + "/" + std::to_string(size) + "/" + std::to_string(most) +
         " HTTP/1.1\r\nHost: a\r\n\r\n");
    std::string all;
    for (std::string more = receive(); !more.empty(); more = receive()) all += more;
    return all;
  }
  static std::string_view head_of(std::string_view answer) { return answer.substr(0, answer.find("\r\n\r\n") + 4); }
  void expect_whole(std::size_t size, std::size_t most) {
    const std::string answer = ask("GET", 200, size, most);
    const std::string_view head = head_of(answer);
    EXPECT_TRUE(head.starts_with("HTTP/1.1 200 OK\r\n")) << head;
    EXPECT_NE(head.find("Content-Length: " + std::to_string(size) + "\r\n"), head.npos) << head;
    EXPECT_TRUE(answer.substr(head.size()) == text_of(size)) << size << " in pieces of up to " << most;
  }
};

struct PiecesInBadWeather : Pieces {
  PiecesInBadWeather()
      : Pieces({.short_read = 0.3, .short_write = 0.5, .would_block = 0.3, .split = 0.3, .buffer = 20'000}) {}
};
struct PiecesInARoomyPipe : Pieces {
  PiecesInARoomyPipe() : Pieces({.buffer = 64 << 20}) {}
};

TEST_F(Pieces, ArriveAsOne) {
  for (const std::size_t most : {1, 7, 40, 1000, 1024, 3000, 70'000, 200'000}) {
    for (const std::size_t size : {1, 30, 3000, 16 * 1024, 16 * 1024 + 1, 64 * 1024, 300'000}) expect_whole(size, most);
  }
  EXPECT_EQ(handler_->begun, 56);
}

TEST_F(PiecesInBadWeather, ArriveAsOne) {
  for (const std::size_t most : {1, 40, 1500, 100'000}) expect_whole(50'000, most);
  expect_whole(1'000'000, 2500);
}

TEST_F(Pieces, AreOnlyCountedWhereThereIsNoBody) {
  for (const std::size_t size : {10, 100'000}) {
    const std::string head = ask("HEAD", 200, size, 50);
    EXPECT_EQ(head_of(head), head);
    EXPECT_NE(head.find("Content-Length: " + std::to_string(size) + "\r\n"), head.npos) << head;
    const std::string unchanged = ask("GET", 304, size, 50);
    EXPECT_TRUE(unchanged.starts_with("HTTP/1.1 304 "));
    EXPECT_EQ(head_of(unchanged), unchanged);
  }
  expect_whole(100, 5);
}

TEST_F(Pieces, OfNothingAreAnEmptyBody) { expect_whole(0, 5); }

TEST_F(PiecesInARoomyPipe, LeaveInFewWrites) {
  const auto writes_of = [&](std::size_t size, std::size_t most) {
    const std::uint64_t before = reactor_.counters().segments;
    expect_whole(size, most);
    return reactor_.counters().segments - before - 1;  // without the segment of the request
  };
  EXPECT_EQ(writes_of(16'000, 10), 1u);
  EXPECT_EQ(writes_of(60'000, 10), 1u);
  EXPECT_LE(writes_of(600'000, 1000), 10u) << "short pieces are gathered up to 64 KiB";
  EXPECT_LE(writes_of(2'000'000, 20'000), 3u) << "long ones, up to 256";
}

TEST_F(Pieces, OfSeveralAnswersComeInTheirOrder) {
  std::string requests;
  std::string expected;
  const std::pair<std::size_t, std::size_t> asked[] = {{50, 5}, {60'000, 700}, {20, 3}, {100'000, 5000}, {10, 10}};
  for (const auto& [size, most] : asked) {
    requests += "GET /200/" + std::to_string(size) + "/" + std::to_string(most) + " HTTP/1.1\r\nHost: a\r\n\r\n";
    expected += text_of(size);
  }
  send(requests);
  std::string all;
  for (std::string more = receive(); !more.empty(); more = receive()) all += more;
  std::string bodies;
  for (std::string_view rest = all; !rest.empty();) {
    const std::string_view head = head_of(rest);
    std::string_view length = head.substr(std::min(head.find("Content-Length:"), head.size()));
    ASSERT_FALSE(length.empty());
    length.remove_prefix(length.find(' '));
    const std::size_t size = take_number(length);
    bodies += rest.substr(head.size(), size);
    rest.remove_prefix(std::min(rest.size(), head.size() + size));
  }
  EXPECT_TRUE(bodies == expected);
}

}  // namespace
}  // namespace sluice::http
