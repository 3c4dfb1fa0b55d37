// Three cores of a gateway in front of four servers on a simulated network. The servers refuse, hang, reset, answer
// 503, break off answers, violate HTTP, go and come back, and reloads add and remove them. Every client gets one
// answer, its own. A request that may not be repeated is executed at most once. No server gets more requests at the
// same time than its limit. Retries stay within their budget. Once all faults end, all servers are up again.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/mesh.h"
#include "core/simulated_reactor.h"
#include "gateway/proxy/proxy.h"
#include "gateway/proxy/upstream.h"
#include "http/h1/chunked.h"
#include "http/server.h"
#include "net/stream.h"
#include "simulation.h"

namespace sluice::sim {
namespace {

using core::Async;
using core::Task;
using http::Exchange;
using http::Method;
using http::Request;
using http::Response;

constexpr unsigned core_count = 3;
constexpr std::size_t server_count = 4;

struct Tally {
  std::uint64_t asked = 0;
  std::uint64_t answered = 0;  // 200 and the whole body
  std::uint64_t refused = 0;   // an error status
  std::uint64_t broken = 0;    // the body was cut
  std::uint64_t left = 0;      // the client left before the answer
  std::uint64_t lied_to = 0;   // an answer that the server sent before it had a request
  std::uint64_t repeated = 0;  // executed more than once
  double ejections = 0;
  double retries = 0;

  Tally& operator+=(const Tally& more) {
    asked += more.asked;
    answered += more.answered;
    refused += more.refused;
    broken += more.broken;
    left += more.left;
    lied_to += more.lied_to;
    repeated += more.repeated;
    ejections += more.ejections;
    retries += more.retries;
    return *this;
  }
};

// The requests that reached the servers.
struct Arrivals {
  std::map<std::uint64_t, int> times;        // by id; 0: a probe
  std::set<std::uint64_t> invalid;           // ids of requests that were answered with an invalid head at once
  std::function<void(std::size_t)> at = {};  // called with the server's index

  void add(std::uint64_t id, std::size_t server) {
    ++times[id];
    at(server);
  }
};

class Back final : public http::Handler {
 public:
  enum class Mood : std::uint8_t { well, slow, hangs, refuses, breaks };

  Back(core::Reactor& reactor, Arrivals& arrivals, std::size_t index, std::uint64_t seed)
      : reactor_(reactor), arrivals_(arrivals), index_(index), random_(seed) {}

  Async<Response> handle(Exchange& exchange) override { return answer(exchange.request); }
  Mood mood = Mood::well;

 private:
  class Breaking final : public http::BodySource {
   public:
    Async<Result<Progress>> pull(Buffer& out) override {
      if (std::exchange(begun_, true)) return fail(Errc::closed);
      out.append("half of it");
      return Progress::more;
    }

   private:
    bool begun_ = false;
  };

  Task<Response> answer(Request& request) {
    const std::string id(request.field("x-id"));
    arrivals_.add(std::strtoull(id.c_str(), nullptr, 10), index_);
    std::string bytes = id + ":";
    while (request.body != nullptr) {
      const auto piece = co_await request.body->read();
      if (!piece) co_return http::problem(400);
      if (piece->empty()) break;
      bytes += *piece;
    }
    if (mood == Mood::slow) co_await Sleep(reactor_, random_.up_to(800ms));
    if (mood == Mood::hangs) co_await Sleep(reactor_, 1h);
    Response response;
    if (mood == Mood::refuses) response.status = 503;
    if (mood == Mood::breaks) {
      response.body = std::make_unique<Breaking>();
    } else {
      Buffer body;
      body.append(bytes);
      response.body = std::move(body);
    }
    co_return response;
  }

  core::Reactor& reactor_;
  Arrivals& arrivals_;
  const std::size_t index_;
  Random random_;
};

// A server whose responses violate HTTP. The body of an invalid response is "invalid", which no client may get.
class Liar {
 public:
  // `is_exact`: the network delivers the bytes of one write together. Then bytes behind a response are the response to
  // the same request once more. Otherwise they may arrive after the next request, and the gateway cannot know better.
  Liar(core::Reactor& reactor, const core::Address& address, Arrivals& arrivals, std::size_t index, std::uint64_t seed,
       bool is_exact)
      : reactor_(reactor), listener_(reactor), arrivals_(arrivals), index_(index), random_(seed), is_exact_(is_exact) {
    if (!reactor.listen(listener_.handle(), address, {})) std::abort();
    tasks_.spawn(accept());
  }

 private:
  enum class Lie : std::uint8_t {
    none,
    too_short,
    too_long,
    bad_chunk,
    two_lengths,
    length_and_chunks,
    garbage,
    interim_flood,
    unasked_101,
    long_head,
    endless_head
  };
  struct Session {
    Session(core::Reactor& reactor, std::uint64_t seed) : stream(reactor), random(seed) {}
    net::Stream stream;
    Random random;
    Buffer in;
    bool is_ahead = false;  // it has answered before a request
  };

  Task<void> accept() {
    for (;;) {
      (void)co_await listener_.readable(never);
      auto session = std::make_unique<Session>(reactor_, random_.next());
      const auto accepted = reactor_.accept(listener_.handle(), session->stream.handle(), nullptr);
      if (!accepted) {
        co_await Sleep(reactor_, 10ms);
      } else if (*accepted) {
        tasks_.spawn(serve(std::move(session)));
      }
    }
  }

  static std::string with_length(std::string_view body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  static std::string value_of(std::string_view head, std::string_view name) {
    std::string lower(head);
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const std::size_t begin = lower.find("\r\n" + std::string(name) + ": ");
    if (begin == std::string::npos) return {};
    const std::size_t value = begin + name.size() + 4;
    return lower.substr(value, lower.find("\r\n", value) - value);
  }

  Task<bool> fill(Session& session) {
    const auto got = co_await session.stream.read(session.in, 20'000, never);
    co_return got && *got != 0;
  }
  Task<bool> say(Session& session, std::string bytes) {
    iovec part{bytes.data(), bytes.size()};
    const auto written = co_await session.stream.write({&part, 1}, 10s);
    co_return written.has_value();
  }

  // Reads a request. Returns the truthful body of its response, or nothing if the connection has ended.
  Task<std::optional<std::string>> receive(Session& session, std::uint64_t& id) {
    std::size_t end = 0;
    while ((end = session.in.view().find("\r\n\r\n")) == std::string_view::npos) {
      if (!co_await fill(session)) co_return std::nullopt;
    }
    const std::string head(session.in.view().substr(0, end + 2));
    session.in.consume(end + 4);
    const std::string number = value_of(head, "x-id");
    id = std::strtoull(number.c_str(), nullptr, 10);
    arrivals_.add(id, index_);
    std::string body = number + ":";
    if (!value_of(head, "transfer-encoding").empty()) {
      http::h1::ChunkedDecoder decoder;
      for (;;) {
        using State = http::h1::ChunkedDecoder::Step::State;
        const auto step = decoder.decode(session.in.view());
        body += step.data;
        session.in.consume(step.consumed);
        if (step.state == State::done) co_return body;
        if (step.state == State::refused) co_return std::nullopt;
        if (step.state == State::need_more && !co_await fill(session)) co_return std::nullopt;
      }
    }
    const std::size_t length = std::strtoull(value_of(head, "content-length").c_str(), nullptr, 10);
    while (session.in.size() < length) {
      if (!co_await fill(session)) co_return std::nullopt;
    }
    body += session.in.view().substr(0, length);
    session.in.consume(length);
    co_return body;
  }

  Task<void> serve(std::unique_ptr<Session> owned) {
    Session& session = *owned;
    Random& random = session.random;
    for (;;) {
      // A later response of this session would be taken for the answer to a later request.
      if (random.chance(0.05)) {
        session.is_ahead = true;
        co_await Sleep(reactor_, random.up_to(5ms));
        if (!co_await say(session, with_length("lie"))) co_return;
      }
      std::uint64_t id = 0;
      auto truth = co_await receive(session, id);
      if (!truth) co_return;
      if (session.is_ahead) {
        if (!co_await say(session, with_length("lie"))) co_return;
        continue;
      }
      const auto lie = static_cast<Lie>(random.below(11));
      if (lie >= Lie::two_lengths && lie <= Lie::long_head) arrivals_.invalid.insert(id);
      if (!co_await answer(session, lie, *truth) || random.chance(0.1)) co_return;
    }
  }

  // Returns false if the connection is to be closed.
  Task<bool> answer(Session& session, Lie lie, const std::string& truth) {
    Random& random = session.random;
    const std::string ok = "HTTP/1.1 200 OK\r\n";
    const std::string_view half = std::string_view(truth).substr(0, truth.size() / 2);
    switch (lie) {
      case Lie::none:
        co_return co_await say(session, with_length(truth));
      case Lie::too_short: {
        const std::string length = std::to_string(truth.size() + random.below(50));
        const bool said = co_await say(session, ok + "Content-Length: " + length + "\r\n\r\n" + std::string(half));
        // Nothing more comes, with and without an end of the connection.
        if (said && random.chance(0.5)) co_await Sleep(reactor_, 3s);
        co_return false;
      }
      case Lie::too_long: {
        const bool is_together = is_exact_ && truth.size() < 30'000;
        std::string bytes = with_length(truth);
        const std::string more = with_length(is_together ? truth : "lie");
        // Once more, or more than a client reads together with a head.
        const std::size_t size = bytes.size() + (random.chance(0.5) ? 20'000 : 1);
        while (bytes.size() < size) bytes += more;
        co_return co_await say(session, std::move(bytes));
      }
      case Lie::bad_chunk: {
        std::string body = fmt::format("{:x}\r\n{}", half.size(), half);
        const char* ends[] = {"\r\nzz\r\n", "X\n0\r\n\r\n", "\r\n-1\r\n\r\n", "\r\n0x0\r\n\r\n", "\r\n0\r\r\n", ""};
        const std::uint64_t end = random.below(6);
        const bool said = co_await say(session, ok + "Transfer-Encoding: chunked\r\n\r\n" + body + ends[end]);
        if (!said) co_return false;
        co_return end != 5;
      }
      case Lie::two_lengths:
        co_return co_await say(session, ok + (random.chance(0.5) ? "Content-Length: 8" : "Content-Length: 3") +
                                            "\r\nContent-Length: 7\r\n\r\ninvalid");
      case Lie::length_and_chunks: {
        const bool length_first = random.chance(0.5);
        const std::string length = "Content-Length: 17\r\nContent-Length: 7\r\n";  // one alone would be ignored
        co_return co_await say(session, ok + (length_first ? length : "") + "Transfer-Encoding: chunked\r\n" +
                                            (length_first ? "" : length) + "\r\n7\r\ninvalid\r\n0\r\n\r\n");
      }
      case Lie::garbage: {
        const char* heads[] = {"SSH-2.0-OpenSSH_9.6\r\n\r\n",
                               "HTTP/3.0 200 OK\r\n\r\ninvalid",
                               "HTTP/1.1 20 OK\r\n\r\ninvalid",
                               "HTTP/1.1 200 OK\r\nA b: c\r\n\r\ninvalid",
                               "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\ninvalid",
                               "\x15\x03\x01\r\n\r\n",
                               "invalid\r\n\r\n"};
        co_return co_await say(session, heads[random.below(7)]);
      }
      case Lie::interim_flood: {
        std::string flood;
        for (int i = 0; i < 200; ++i) flood += random.chance(0.5) ? "HTTP/1.1 103 \r\n\r\n" : "HTTP/1.1 100 \r\n\r\n";
        co_return co_await say(session, flood + with_length("invalid"));
      }
      case Lie::unasked_101:
        co_return co_await say(
            session, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\ninvalid");
      case Lie::long_head:
        co_return co_await say(session, ok + "X: " + pattern(1, 50'000) + "\r\n\r\ninvalid");
      case Lie::endless_head:
        for (std::string line = ok; co_await say(session, line); line = "X: y\r\n") co_await Sleep(reactor_, 20ms);
        co_return false;
    }
    co_return false;
  }

  core::Reactor& reactor_;
  net::Stream listener_;
  Arrivals& arrivals_;
  const std::size_t index_;
  Random random_;
  const bool is_exact_;
  core::TaskGroup tasks_;
};

struct Body final : http::BodyReader {
  Body(core::Reactor& on, std::string all, std::uint64_t seed) : reactor(on), bytes(std::move(all)), random(seed) {}
  Task<Result<std::string_view>> read() override {
    if (random.chance(0.2)) co_await Sleep(reactor, random.up_to(50ms));
    const std::string_view piece = std::string_view(bytes).substr(given, random.between(1, 20'000));
    given += piece.size();
    co_return piece;
  }
  core::Reactor& reactor;
  const std::string bytes;
  Random random;
  std::size_t given = 0;
};

class World {
 public:
  // A null `faults`: the network has no faults.
  World(std::uint64_t seed, const core::Faults* faults)
      : reactor(seed, faults != nullptr ? *faults : core::Faults{}),
        is_exact_(faults == nullptr),
        random_(seed ^ 0x5a5a) {
    arrivals_.at = [this](std::size_t server) { check_limit(server); };
    for (std::size_t i = 0; i < server_count; ++i) {
      backs_.push_back(std::make_unique<Back>(reactor, arrivals_, i, random_.next()));
      servers_.push_back(nullptr);
      liars_.push_back(nullptr);
      come(i);
    }
    options_.name = Located<std::string>("back");
    using enum gateway::Balance;
    const gateway::Balance balances[] = {round_robin, least, hash};
    options_.balance = Located<gateway::Balance>(balances[random_.below(3)]);
    if (options_.balance.value == hash) options_.hash = Located<std::string>("header.x-id");
    options_.connect_timeout = 300ms;
    options_.response_timeout = 1s;
    options_.idle_timeout = 1s;
    options_.write_timeout = 1s;
    options_.keep_for = 2s;
    const char* budgets[] = {"0%", "20%", "20%", "50%", "100%"};
    options_.retries = {.tries = static_cast<std::uint32_t>(random_.below(4)),
                        .budget = budgets[random_.below(5)],
                        .at_least = static_cast<std::uint32_t>(random_.below(12))};
    if (random_.chance(0.3)) {
      options_.queue = static_cast<std::uint32_t>(random_.below(8));
      options_.wait = Located<Duration>(50ms + random_.up_to(500ms));
      limit_connections();
    }
    if (random_.chance(0.5)) options_.retry_on = Located<std::string>("503");
    const char* shares[] = {"0%", "50%", "100%"};
    options_.eject = {.after = static_cast<std::uint32_t>(random_.between(1, 4)),
                      .time = {500ms},
                      .longest = 4s,
                      .at_most = shares[random_.below(3)],
                      .slow_start = random_.chance(0.5) ? Duration(0) : Duration(2s)};
    if (random_.chance(0.4)) {
      options_.health = gateway::HealthOptions{
          .path = random_.chance(0.5) ? "/healthz" : "", .every = 300ms, .timeout = 200ms, .rise = 2, .fall = 2};
    }
    for (unsigned i = 0; i < core_count; ++i) ports_.push_back(std::make_unique<core::MeshPort>(mesh_, i, reactor));
    listed_ = server_count;
    shared_ = configuration(nullptr);
    for (unsigned i = 0; i < core_count; ++i) {
      upstreams_.push_back(std::make_shared<gateway::Upstream>(reactor, mailbox_, ports_[i].get(), shared_));
      proxies_.push_back(std::make_shared<gateway::Proxy>(upstreams_[i], shared_));
    }
  }
  ~World() {
    clients_.cancel();
    proxies_.clear();
    upstreams_.clear();
  }

  void pass(Duration time) {
    const Instant until = reactor.now() + time;
    while (reactor.now() < until) {
      Instant next = until;
      for (unsigned i = 0; i < core_count; ++i) {
        if (reactor.now() < busy_until_[i]) {
          next = std::min(next, busy_until_[i]);
        } else {
          ports_[i]->drain();
          if (!ports_[i]->prepare_to_sleep()) next = reactor.now();
        }
      }
      reactor.turn(next);
      for (const auto& port : ports_) port->awake();
    }
  }

  // Sends requests for `time`, while servers change their behaviour.
  void run(int requests, Duration time) {
    const Instant end = reactor.now() + time;
    for (int i = 0; i < requests; ++i) clients_.spawn(client(random_.up_to(time)));
    while (reactor.now() < end) {
      pass(random_.up_to(400ms));
      if (random_.chance(0.3)) trouble(random_.below(server_count));
      // Keeps a core busy for a while, so that its inbox fills up.
      if (random_.chance(0.1)) busy_until_[random_.below(core_count)] = reactor.now() + random_.up_to(500ms);
      if (random_.chance(0.1)) reload(random_.between(1, server_count));
    }
    pass(1min);
    EXPECT_TRUE(clients_.empty()) << "a client waits and gets no answer";
  }

  // All servers are away or hang while requests go on, and come back.
  void outage() {
    reload(server_count);
    const bool all_hang = random_.chance(0.3);
    const bool all_gone = random_.chance(0.3);
    for (std::size_t i = 0; i < server_count; ++i) {
      come(i);
      backs_[i]->mood = Back::Mood::hangs;
      if (!all_hang && (all_gone || random_.chance(0.5))) servers_[i].reset();
    }
    const auto arrivals = [&] {
      std::uint64_t sum = 0;
      for (const auto& [id, times] : arrivals_.times) sum += id != 0 ? static_cast<std::uint64_t>(times) : 0;
      return sum;
    };
    const std::uint64_t arrived = arrivals();
    const auto begun = begun_;
    for (int i = 0; i < 200; ++i) clients_.spawn(client(random_.up_to(4s)));
    pass(15s);
    EXPECT_TRUE(clients_.empty()) << "a client waits and gets no answer";
    // No connection is reused here, so a server gets a request again only by a retry.
    std::uint64_t most = 0;
    for (unsigned i = 0; i < core_count; ++i) {
      most += begun_[i] - begun[i] + most_retries(begun_[i] - begun[i]);
    }
    EXPECT_LE(arrivals() - arrived, most);

    reactor.set_faults({});
    for (std::size_t i = 0; i < server_count; ++i) {
      backs_[i]->mood = Back::Mood::well;
      if (!servers_[i]) come(i);
    }
    // Within this time the probes bring all servers back, and the connections that the network has lost are dropped.
    for (int i = 0; i < 20; ++i) clients_.spawn(client(random_.up_to(2s)));
    pass(3s);
    const Tally before = tally;
    for (int i = 0; i < 20; ++i) {
      clients_.spawn(client(Duration(0)));
      for (int waits = 0; waits < 1000 && !clients_.empty(); ++waits) pass(10ms);
    }
    EXPECT_EQ(tally.refused, before.refused);
    EXPECT_EQ(tally.broken, before.broken);
    EXPECT_GE(tally.answered, before.answered + 10);
  }

  // Ends all faults while requests go on: in the end every server is up, and each core sends requests to each.
  void heal() {
    reactor.set_faults({});
    for (std::size_t i = 0; i < server_count; ++i) {
      backs_[i]->mood = Back::Mood::well;
      if (!servers_[i]) come(i);
    }
    reload(server_count);
    for (int i = 0; i < 60; ++i) {
      for (int j = 0; j < 40; ++j) clients_.spawn(client(random_.up_to(500ms)));
      pass(500ms);
    }
    pass(10s);
    EXPECT_TRUE(clients_.empty());
    EXPECT_EQ(reading("sluice_upstream_state", "state=\"up\""), double{server_count});
    EXPECT_EQ(reading("sluice_upstream_requests_in_flight", ""), 0);
    for (const auto& upstream : upstreams_) {
      for (std::size_t i = 0; i < server_count; ++i) {
        double before = reading_of(*upstream, "sluice_upstream_requests_total", name(i));
        EXPECT_GT(before, 0) << name(i);
      }
    }
  }

  void count() {
    for (const auto& [id, times] : arrivals_.times) {
      if (id == 0) continue;  // a probe
      const bool is_known = kinds_.contains(id);
      EXPECT_TRUE(is_known) << "request " << id << " was never sent";
      if (!is_known) continue;
      if (!may_repeat(kinds_[id])) {
        EXPECT_LE(times, 1) << "request " << id << " was executed twice";
      }
      tally.repeated += times > 1 ? 1 : 0;
    }
    tally.ejections = reading("sluice_upstream_ejections_total", "");
    tally.retries = reading("sluice_upstream_retries_total", "");
    EXPECT_EQ(tally.asked, tally.answered + tally.refused + tally.broken + tally.left + tally.lied_to);
    for (unsigned i = 0; i < core_count; ++i) EXPECT_LE(costly_retries(i), most_retries(begun_[i])) << "core " << i;
  }

  core::SimulatedReactor reactor;
  Tally tally;

 private:
  static bool may_repeat(Method method) { return method != Method::post && method != Method::patch; }
  static std::string name(std::size_t server) { return "127.0.0.1:" + std::to_string(9001 + server); }
  void come(std::size_t server) {
    liars_[server].reset();
    servers_[server].reset();
    servers_[server] =
        std::make_unique<http::Server>(reactor, *backs_[server], http::ServerOptions{.idle_timeout = 3s});
    EXPECT_TRUE(servers_[server]->listen(*core::Address::parse(name(server))));
  }
  void trouble(std::size_t server) {
    if (servers_[server] && random_.chance(0.3)) {
      servers_[server].reset();
      return;
    }
    const std::uint64_t mood = random_.below(7);
    if (mood >= 5) {
      servers_[server].reset();
      liars_[server].reset();
      liars_[server] = std::make_unique<Liar>(reactor, *core::Address::parse(name(server)), arrivals_, server,
                                              random_.next(), is_exact_);
      return;
    }
    if (!servers_[server]) come(server);
    backs_[server]->mood = static_cast<Back::Mood>(mood);
  }

  void limit_connections() {
    options_.connections = static_cast<std::uint32_t>(random_.between(1, 4));
    most_connections_ = std::max(most_connections_, options_.connections);
  }
  void check_limit(std::size_t server) const {
    if (most_connections_ == 0) return;
    const double busy = reading("sluice_upstream_connections", name(server)) -
                        reading("sluice_upstream_idle_connections", name(server));
    EXPECT_LE(busy, most_connections_) << name(server);
  }

  // The most retries that the budget of a core allows, except those after failures to connect.
  [[nodiscard]] std::uint64_t most_retries(std::uint64_t requests) const {
    const unsigned percent = options_.retries.percent();
    if (percent == 0) return 0;
    if (percent == 100) return requests * options_.retries.tries;
    return options_.retries.at_least + requests * percent / 100 + 1;
  }
  // A lower bound of the retries of a core that counted against its budget.
  [[nodiscard]] std::uint64_t costly_retries(unsigned core) const {
    double sum = 0;
    for (std::size_t i = 0; i < server_count; ++i) {
      const auto count = [&](std::string_view what) { return reading_of(*upstreams_[core], what, name(i)); };
      const double free = count("sluice_upstream_connection_failures_total") + count("sluice_upstream_busy_total");
      sum += std::max(0.0, count("sluice_upstream_retries_total") - free);
    }
    return static_cast<std::uint64_t>(sum);
  }

  std::shared_ptr<const gateway::SharedUpstream> configuration(const gateway::SharedUpstream* before) {
    options_.servers.clear();
    for (std::size_t i = 0; i < listed_; ++i) {
      options_.servers.push_back({.url = {"http://" + name(i)}, .weight = static_cast<std::uint32_t>(1 + i % 2)});
    }
    return std::make_shared<gateway::SharedUpstream>(options_, before, nullptr, core_count);
  }
  // Each core takes the new configuration at a different time.
  void reload(std::size_t count) {
    listed_ = count;
    if (most_connections_ != 0 && random_.chance(0.2)) limit_connections();
    shared_ = configuration(shared_.get());
    for (unsigned i = 0; i < core_count; ++i) {
      upstreams_[i]->serve(shared_);
      proxies_[i] = std::make_shared<gateway::Proxy>(upstreams_[i], shared_);
      pass(random_.up_to(20ms));
    }
  }

  Task<void> client(Duration after) {
    co_await Sleep(reactor, after);
    const Method methods[] = {Method::get, Method::put, Method::post, Method::patch, Method::delete_};
    const std::uint64_t id = ++last_id_;
    const Method method = methods[random_.below(5)];
    kinds_[id] = method;
    ++tally.asked;
    const std::string number = std::to_string(id);
    const bool has_body = method != Method::get && random_.chance(0.7);
    const bool has_length = random_.chance(0.7);
    const std::size_t size = random_.chance(0.8)   ? random_.between(1, 3000)
                             : random_.chance(0.5) ? random_.between(17'000, 28'000)
                                                   : random_.between(60'000, 100'000);
    const std::string bytes = pattern(id, size);
    const std::string length = std::to_string(bytes.size());
    std::vector<http::Field> fields = {{"x-id", number}};
    if (has_body && has_length) fields.push_back({"content-length", length});
    Body body(reactor, bytes, id);
    Exchange exchange;
    Request& request = exchange.request;
    request.method = method;
    request.version = http::Version::http11;
    request.method_text = name_of(method);
    request.target = request.path = request.segments = "/a";
    request.authority = "test";
    request.fields = fields;
    request.peer = "192.0.2.1";
    if (has_body) request.body = &body;
    if (random_.chance(0.1)) {
      // The client leaves, usually before the answer.
      core::TaskGroup waiting;
      bool done = false;
      waiting.spawn(one(exchange, number, has_body ? bytes : std::string(), done));
      co_await Sleep(reactor, random_.up_to(50ms));
      if (!done) ++tally.left;
      co_return;
    }
    bool done = false;
    co_await one(exchange, number, has_body ? bytes : std::string(), done);
  }

  Task<void> one(Exchange& exchange, const std::string& number, std::string bytes, bool& done) {
    const std::size_t core = random_.below(core_count);
    const std::shared_ptr<gateway::Proxy> proxy = proxies_[core];
    ++begun_[core];
    Response response = co_await proxy->handle(exchange);
    if (response.status != 200) {
      done = true;
      ++tally.refused;
      EXPECT_TRUE(response.status == 502 || response.status == 503 || response.status == 504) << response.status;
      if (may_repeat(exchange.request.method)) co_return;
      if (arrivals_.invalid.contains(std::strtoull(number.c_str(), nullptr, 10))) {
        EXPECT_TRUE(response.status == 502 || (!is_exact_ && response.status == 504)) << response.status;
      }
      co_return;
    }
    Buffer all;
    auto* source = std::get_if<std::unique_ptr<http::BodySource>>(&response.body);
    EXPECT_NE(source, nullptr);
    if (source == nullptr) co_return;
    for (;;) {
      const auto progress = co_await (*source)->pull(all);
      if (!progress) {
        done = true;
        ++tally.broken;
        co_return;
      }
      if (*progress == http::BodySource::Progress::done) break;
    }
    done = true;
    if (all.view() == "lie") {
      ++tally.lied_to;
      co_return;
    }
    ++tally.answered;
    EXPECT_TRUE(all.view() == number + ":" + bytes)
        << "request " << number << " got the answer " << all.view().substr(0, 30);
  }

  static double reading_of(const gateway::Upstream& upstream, std::string_view name, const std::string& labels) {
    double sum = 0;
    for (const Reading& one : upstream.readings()) {
      if (one.name == name && one.labels.contains(labels)) sum += one.value;
    }
    return sum;
  }
  double reading(std::string_view name, const std::string& labels) const {
    double sum = 0;
    for (const auto& upstream : upstreams_) sum += reading_of(*upstream, name, labels);
    return sum;
  }

  const bool is_exact_;
  core::Mailbox mailbox_{reactor};
  core::Mesh mesh_{core_count, 4};  // small enough to be full at times
  std::vector<std::unique_ptr<core::MeshPort>> ports_;
  Random random_;
  std::array<Instant, core_count> busy_until_{};
  std::array<std::uint64_t, core_count> begun_{};
  std::uint32_t most_connections_ = 0;  // the highest limit so far; 0: no limit
  Arrivals arrivals_;
  std::map<std::uint64_t, Method> kinds_;
  std::vector<std::unique_ptr<Back>> backs_;
  std::vector<std::unique_ptr<http::Server>> servers_;
  std::vector<std::unique_ptr<Liar>> liars_;
  gateway::UpstreamOptions options_;
  std::size_t listed_ = 0;
  std::shared_ptr<const gateway::SharedUpstream> shared_;
  std::vector<std::shared_ptr<gateway::Upstream>> upstreams_;
  std::vector<std::shared_ptr<gateway::Proxy>> proxies_;
  std::uint64_t last_id_ = 0;
  core::TaskGroup clients_;
};

constexpr core::Faults storm = {.short_read = 0.1,
                                .short_write = 0.1,
                                .would_block = 0.1,
                                .split = 0.2,
                                .stall = 0.02,
                                .reset = 0.01,
                                .vanish = 0.005,
                                .refuse = 0.05,
                                .accept_abort = 0.02};

// The number of worlds: SLUICE_WORLDS, or `usual`.
int worlds(int usual) {
  const char* given = std::getenv("SLUICE_WORLDS");
  return given != nullptr ? std::atoi(given) : usual;
}

TEST(GatewaySoak, NoRequestIsLostDoubledOrCrossed) {
  Tally all;
  const int count = worlds(sanitized ? 60 : 300);
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("world " + std::to_string(i));
    World world(seed() + static_cast<std::uint64_t>(i), i % 3 == 0 ? nullptr : &storm);
    world.run(120, 8s);
    world.count();
    all += world.tally;
  }
  std::printf(
      "%d worlds: %llu requests, %llu answered, %llu refused, %llu broken, %llu left, %llu lied to, %llu repeated; "
      "%.0f ejections, "
      "%.0f retries\n",
      count, static_cast<unsigned long long>(all.asked), static_cast<unsigned long long>(all.answered),
      static_cast<unsigned long long>(all.refused), static_cast<unsigned long long>(all.broken),
      static_cast<unsigned long long>(all.left), static_cast<unsigned long long>(all.lied_to),
      static_cast<unsigned long long>(all.repeated), all.ejections, all.retries);
  EXPECT_GT(all.answered, all.asked / 4);
  EXPECT_GT(all.refused, 0u);
  EXPECT_GT(all.broken, 0u);
  EXPECT_GT(all.lied_to, 0u);
  EXPECT_GT(all.repeated, 0u);
  EXPECT_GT(all.ejections, count / 2);
  EXPECT_GT(all.retries, count);
}

TEST(GatewaySoak, EveryServerComesBack) {
  const int count = worlds(sanitized ? 10 : 60);
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("world " + std::to_string(i));
    World world(seed() + 100'000 + static_cast<std::uint64_t>(i), &storm);
    world.run(80, 5s);
    world.heal();
    world.count();
  }
}

TEST(GatewaySoak, ATotalOutageEnds) {
  const int count = worlds(sanitized ? 20 : 100);
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("world " + std::to_string(i));
    World world(seed() + 200'000 + static_cast<std::uint64_t>(i), i % 2 == 0 ? nullptr : &storm);
    world.run(60, 4s);
    world.outage();
    world.count();
  }
}

TEST(GatewaySoak, TheSameSeedGivesTheSameHistory) {
  std::uint64_t histories[2];
  for (std::uint64_t& history : histories) {
    World world(seed() + 7, &storm);
    world.run(60, 5s);
    history = world.reactor.history();
  }
  EXPECT_EQ(histories[0], histories[1]);
}

}  // namespace
}  // namespace sluice::sim
