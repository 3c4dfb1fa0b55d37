#include "gateway/proxy/proxy.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"
#include "http/server.h"

namespace sluice::gateway {
namespace {

using core::Task;
using http::Exchange;
using http::Request;
using http::Response;

class Back final : public http::Handler {
 public:
  using Run = std::function<Task<Response>(Request& request)>;
  explicit Back(Run run) : run_(std::move(run)) {}
  core::Async<Response> handle(Exchange& exchange) override {
    Request& request = exchange.request;
    ++requests;
    return run_(request);
  }
  int requests = 0;

 private:
  const Run run_;
};

Task<std::string> read_all(Request& request) {
  std::string body;
  while (request.body != nullptr) {
    const auto piece = co_await request.body->read();
    if (!piece || piece->empty()) break;
    body += *piece;
  }
  co_return body;
}

Response text(std::string_view bytes) {
  Response response;
  Buffer body;
  body.append(bytes);
  response.body = std::move(body);
  return response;
}

Task<Response> say(std::string bytes) { co_return text(bytes); }

// A gateway in front of servers, all on one simulated core.
class ProxyTest : public testing::Test {
 protected:
  struct Upstreamed {
    Back handler;
    http::Server server;
    std::string url;
    explicit Upstreamed(core::Reactor& reactor, Back::Run run) : handler(std::move(run)), server(reactor, handler, {}) {
      url = "http://" + server.listen(*core::Address::parse("127.0.0.1:0"))->text();
    }
  };

  Upstreamed& add_server(Back::Run run) {
    Upstreamed& added = backs_.emplace_back(reactor_, std::move(run));
    options_.servers.push_back({.url = {added.url}});
    return added;
  }
  // Adds a server with fixed responses: for each connection in order, a response to each request, and then it closes.
  void add_raw_server(std::vector<std::vector<std::string>> connections) {
    ASSERT_TRUE(reactor_.listen(listener_.handle(), *core::Address::parse("127.0.0.1:0"), {}));
    options_.servers.push_back({.url = {"http://" + reactor_.local_address(listener_.handle())->text()}});
    tasks_.spawn(run_raw_server(std::move(connections)));
  }
  Task<void> run_raw_server(std::vector<std::vector<std::string>> connections) {
    for (const auto& answers : connections) {
      net::Stream stream(reactor_);
      for (;;) {
        const auto accepted = reactor_.accept(listener_.handle(), stream.handle(), nullptr);
        if (accepted && *accepted) break;
        (void)co_await listener_.readable(never);
      }
      Buffer bytes;
      for (std::string answer : answers) {
        bytes.clear();
        const auto got = co_await stream.read(bytes, 4096, never);
        if (!got || *got == 0) break;
        ++raw_requests_;
        iovec part{answer.data(), answer.size()};
        (void)co_await stream.write({&part, 1}, 1h);
      }
    }
  }
  void start() {
    options_.name = Located<std::string>("a");
    shared_ = std::make_shared<SharedUpstream>(options_);
    upstream_ = std::make_shared<Upstream>(reactor_, mailbox_, nullptr, shared_);
    proxy_.emplace(upstream_, shared_);
    front_.emplace(reactor_, *proxy_, http::ServerOptions{.body_limit = 300'000});
    address_ = *front_->listen(*core::Address::parse("127.0.0.1:0"));
  }
  // The bytes that the gateway answers, until it has been silent for `patience`.
  std::string ask(std::string bytes, Duration patience = 100ms) {
    std::string answer;
    net::Stream client(reactor_);
    core::TaskGroup asking;
    asking.spawn([](net::Stream& stream, core::Address to, std::string sent, std::string& into) -> Task<void> {
      EXPECT_TRUE(co_await stream.connect(to, never));
      iovec part{sent.data(), sent.size()};
      (void)co_await stream.write({&part, 1}, 1h);
      Buffer received;
      for (;;) {
        const auto got = co_await stream.read(received, 1 << 20, never);
        if (!got || *got == 0) break;
        into += received.view();
        received.clear();
      }
      into += "<end>";
    }(client, address_, std::move(bytes), answer));
    pass(patience);
    return answer;
  }
  std::string get(std::string_view path = "/a", Duration patience = 100ms) {
    return ask("GET " + std::string(path) + " HTTP/1.1\r\nHost: a\r\n\r\n", patience);
  }
  static std::string body_of(std::string_view answer) {
    return std::string(answer.substr(answer.find("\r\n\r\n") + 4));
  }
  static int status_of(std::string_view answer) { return std::stoi(std::string(answer.substr(9, 3))); }
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

  core::SimulatedReactor reactor_{7};
  core::Mailbox mailbox_{reactor_};
  UpstreamOptions options_;
  std::deque<Upstreamed> backs_;
  net::Stream listener_{reactor_};
  int raw_requests_ = 0;
  std::shared_ptr<SharedUpstream> shared_;
  std::shared_ptr<Upstream> upstream_;
  std::optional<Proxy> proxy_;
  std::optional<http::Server> front_;
  core::Address address_;
  core::TaskGroup tasks_;
};

TEST_F(ProxyTest, PassesARequestAndItsResponse) {
  add_server([](Request& request) -> Task<Response> {
    const std::string body = co_await read_all(request);
    Response response = text(std::string(request.method_text) + " " + std::string(request.target) + " " +
                             std::string(request.authority) + " " + std::string(request.field("x-a")) + " " + body);
    response.status = 201;
    response.fields.add("X-B", "c");
    response.fields.add("Connection", "X-D");
    co_return response;
  });
  start();
  std::string answer = ask("POST /a/b?c=d HTTP/1.1\r\nHost: e\r\nX-A: f\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 201 Created\r\n")) << answer;
  EXPECT_NE(answer.find("\r\nX-B: c\r\n"), std::string::npos);
  EXPECT_EQ(body_of(answer), "POST /a/b?c=d e f hello");
  answer = ask("PUT /a HTTP/1.1\r\nHost: e\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n");
  EXPECT_EQ(body_of(answer), "PUT /a e  hi");
  answer = ask("HEAD /a HTTP/1.1\r\nHost: e\r\n\r\n");
  EXPECT_NE(answer.find("\r\nContent-Length: 11\r\n"), std::string::npos) << answer;
  EXPECT_EQ(body_of(answer), "");
  EXPECT_EQ(reading("sluice_upstream_requests_total"), 3);
  EXPECT_EQ(reading("sluice_upstream_connections_opened_total"), 1);
  EXPECT_EQ(reading("sluice_upstream_failures_total"), 0);
}

TEST_F(ProxyTest, PassesEachKindOfBody) {
  const std::string end = "\r\n\r\n";
  add_raw_server({{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n",
                   "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
                   "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nuntil the end"}});
  start();
  const std::string chunked = get();
  EXPECT_NE(chunked.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_TRUE(chunked.ends_with("0\r\nX-Sum: 7\r\n\r\n")) << chunked;
  const std::string hinted = get();
  EXPECT_EQ(status_of(hinted), 103);
  EXPECT_NE(hinted.find("HTTP/1.1 304 "), std::string::npos);
  EXPECT_EQ(status_of(get()), 204);
  const std::string last = get();
  EXPECT_NE(last.find("until the end"), std::string::npos);
  EXPECT_TRUE(last.ends_with("\r\n0\r\n\r\n")) << "it is whole, and the client can tell";
}

TEST_F(ProxyTest, AsksOneServerAfterTheOther) {
  for (const char* name : {"one", "two", "three"}) add_server([name](Request&) { return say(name); });
  start();
  std::string all;
  for (int i = 0; i < 6; ++i) all += body_of(get()) + " ";
  EXPECT_EQ(all, "one two three one two three ");
}

TEST_F(ProxyTest, PassesOverAServerThatCannotBeReached) {
  add_server([](Request&) { return say("one"); });
  add_server([](Request&) { return say("two"); });
  start();
  backs_[0].server.drain();
  for (int i = 0; i < 4; ++i) {
    const std::string answer = ask("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    EXPECT_EQ(body_of(answer), "two");
  }
  EXPECT_EQ(backs_[1].handler.requests, 4);
  EXPECT_GE(reading("sluice_upstream_connection_failures_total"), 2);
  backs_[1].server.drain();
  EXPECT_EQ(status_of(get()), 502);
  EXPECT_EQ(status_of(get()), 502);
}

TEST_F(ProxyTest, MeasuresTheTimeOfEachServer) {
  options_.response_timeout = 2s;
  for (const Duration time : {3s, 1s}) {
    add_server([this, time](Request&) -> Task<Response> {
      co_await core::Sleep(reactor_, reactor_.now() + time);
      co_return text("late");
    });
  }
  start();
  EXPECT_EQ(body_of(get("/a", 4s)), "late");
  std::vector<std::pair<std::uint64_t, double>> times;
  for (const Reading& one : upstream_->readings()) {
    if (one.histogram) times.emplace_back(one.histogram->count, one.histogram->sum_s);
  }
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].first, 0u) << "it gave no response";
  EXPECT_EQ(times[1].first, 1u);
  EXPECT_NEAR(times[1].second, 1, 0.1) << "without the first server's time";
}

// The server closes an idle connection just as a request is sent.
TEST_F(ProxyTest, RepeatsOnlyWhatMayBeRepeated) {
  const std::string ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  add_raw_server({{ok, ""}, {ok, ""}, {ok, ""}, {ok, ""}, {""}});
  start();
  EXPECT_EQ(body_of(get()), "ok");
  EXPECT_EQ(body_of(get()), "ok") << "on a new connection";
  EXPECT_EQ(raw_requests_, 3);
  EXPECT_EQ(status_of(ask("POST /a HTTP/1.1\r\nHost: a\r\n\r\n")), 502) << "it may have been obeyed";
  EXPECT_EQ(raw_requests_, 4);
  EXPECT_EQ(body_of(get()), "ok");
  EXPECT_EQ(body_of(ask("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")), "ok") << "its body was kept";
  EXPECT_EQ(raw_requests_, 7);
  EXPECT_EQ(status_of(ask("PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")), 502)
      << "its body is gone";
  EXPECT_EQ(raw_requests_, 8);
  EXPECT_EQ(status_of(get()), 502) << "a new connection that ends is the server's answer";
  EXPECT_EQ(raw_requests_, 9);
  EXPECT_EQ(reading("sluice_upstream_failures_total"), 1) << "a connection that ended while idle is no failure";
}

TEST_F(ProxyTest, WaitsNoLongerThanItMay) {
  options_.response_timeout = 2s;
  options_.idle_timeout = 1s;
  add_raw_server({{"HTTP/1.1 2", ""}, {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", ""}});
  start();
  EXPECT_EQ(status_of(get("/a", 3s)), 504);
  EXPECT_TRUE(get("/a", 3s).ends_with("\r\n\r\nhel<end>"));
}

TEST_F(ProxyTest, CutsTheAnswerWhereTheResponseEnds) {
  add_raw_server({{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"},
                  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"},
                  {"HTTP/1.1 200 OK\r\nX: \x01\r\n\r\n"}});
  start();
  EXPECT_TRUE(get().ends_with("\r\n\r\nhel<end>"));
  const std::string chunked = get();
  EXPECT_TRUE(chunked.ends_with("hel\r\n<end>")) << chunked;
  EXPECT_EQ(status_of(get()), 502);
  EXPECT_EQ(reading("sluice_upstream_failures_total"), 3);
}

TEST_F(ProxyTest, EndsWithItsClient) {
  add_server([this](Request&) -> Task<Response> {
    co_await core::Sleep(reactor_, reactor_.now() + 1h);
    co_return Response{};
  });
  start();
  EXPECT_EQ(get(), "");  // the client leaves without an answer
  EXPECT_EQ(reading("sluice_upstream_connections"), 1);
  pass(1min);
  EXPECT_EQ(reading("sluice_upstream_connections"), 0);
  EXPECT_EQ(backs_[0].server.counters().open, 0u);
}

// If a server does not read a long body, the gateway does not buffer it.
TEST_F(ProxyTest, LongBodiesStream) {
  std::string body(250'000, 'x');
  for (std::size_t i = 0; i < body.size(); i += 7) body[i] = static_cast<char>('a' + i % 26);
  add_server([](Request& request) -> Task<Response> { co_return text(co_await read_all(request)); });
  start();
  const std::string head = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: ";
  EXPECT_TRUE(body_of(ask(head + std::to_string(body.size()) + "\r\n\r\n" + body, 1s)) == body);
  EXPECT_EQ(status_of(ask(head + "300001\r\n\r\n" + body, 1s)), 413);
  EXPECT_EQ(status_of(ask("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 1s)), 400);
  EXPECT_EQ(reading("sluice_upstream_failures_total"), 0) << "that is not the server's fault";
}

TEST(Servers, AreReadFromTheirAddresses) {
  const auto text_of = [](std::string_view text) {
    const auto server = parse_server(text);
    if (!server) return server.error();
    if (!server->path.empty()) return "path " + server->path;
    return (server->secure ? "secure " : "") + server->host + " " + std::to_string(server->port);
  };
  EXPECT_EQ(text_of("http://127.0.0.1:3000"), "127.0.0.1 3000");
  EXPECT_EQ(text_of("http://billing.internal/"), "billing.internal 80");
  EXPECT_EQ(text_of("http://[::1]:3000"), "::1 3000");
  EXPECT_EQ(text_of("http://[::1]"), "::1 80");
  EXPECT_EQ(text_of("https://a"), "secure a 443");
  EXPECT_EQ(text_of("https://[::1]:8443/"), "secure ::1 8443");
  EXPECT_EQ(text_of("unix:/run/app.sock"), "path /run/app.sock");
  for (const char* wrong : {"unix:", "unix:app.sock", "https://", "https:/a", "", "127.0.0.1:3000", "http://",
                            "http://:80", "http://a:", "http://a:0", "http://a:65536", "http://a:80/b", "http://a?b",
                            "http://a@b", "http://[::1", "http://[x]:1", "ftp://a"}) {
    EXPECT_TRUE(text_of(wrong).starts_with("must ")) << wrong << ": " << text_of(wrong);
    EXPECT_NE(ServerEntry::check(wrong), "") << wrong;
  }
  EXPECT_TRUE(text_of("unix:/" + std::string(107, 'a')).starts_with("must have "));
}

}  // namespace
}  // namespace sluice::gateway
