// Three cores of a gateway in front of four servers on a simulated network. The servers refuse, hang, reset, answer
// 503, break off answers, go and come back, and reloads add and remove them. Every client gets one answer, its own. A
// request that may not be repeated is executed at most once. Once all faults end, all servers are up again.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/mesh.h"
#include "core/simulated_reactor.h"
#include "gateway/proxy/proxy.h"
#include "gateway/proxy/upstream.h"
#include "http/server.h"
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
  std::uint64_t repeated = 0;  // executed more than once
  double ejections = 0;
  double retries = 0;

  Tally& operator+=(const Tally& more) {
    asked += more.asked;
    answered += more.answered;
    refused += more.refused;
    broken += more.broken;
    left += more.left;
    repeated += more.repeated;
    ejections += more.ejections;
    retries += more.retries;
    return *this;
  }
};

class Back final : public http::Handler {
 public:
  enum class Mood : std::uint8_t { well, slow, hangs, refuses, breaks };

  Back(core::Reactor& reactor, std::map<std::uint64_t, int>& executed, std::uint64_t seed)
      : reactor_(reactor), executed_(executed), random_(seed) {}

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
    ++executed_[std::strtoull(id.c_str(), nullptr, 10)];
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
  std::map<std::uint64_t, int>& executed_;
  Random random_;
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
  World(std::uint64_t seed, const core::Faults& faults) : reactor(seed, faults), random_(seed ^ 0x5a5a) {
    for (std::size_t i = 0; i < server_count; ++i) {
      backs_.push_back(std::make_unique<Back>(reactor, executed_, random_.next()));
      servers_.push_back(nullptr);
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
    options_.retries.tries = static_cast<std::uint32_t>(random_.below(4));
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
    EXPECT_TRUE(clients_.empty()) << "somebody waits for ever";
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
    for (const auto& [id, times] : executed_) {
      if (id == 0) continue;  // a probe
      const bool is_known = kinds_.contains(id);
      EXPECT_TRUE(is_known) << "request " << id << " was never sent";
      if (!is_known) continue;
      if (kinds_[id] == Method::post || kinds_[id] == Method::patch) {
        EXPECT_LE(times, 1) << "request " << id << " was executed twice";
      }
      tally.repeated += times > 1 ? 1 : 0;
    }
    tally.ejections = reading("sluice_upstream_ejections_total", "");
    tally.retries = reading("sluice_upstream_retries_total", "");
    EXPECT_EQ(tally.asked, tally.answered + tally.refused + tally.broken + tally.left);
  }

  core::SimulatedReactor reactor;
  Tally tally;

 private:
  static std::string name(std::size_t server) { return "127.0.0.1:" + std::to_string(9001 + server); }
  void come(std::size_t server) {
    servers_[server] =
        std::make_unique<http::Server>(reactor, *backs_[server], http::ServerOptions{.idle_timeout = 3s});
    EXPECT_TRUE(servers_[server]->listen(*core::Address::parse(name(server))));
  }
  void trouble(std::size_t server) {
    if (servers_[server] && random_.chance(0.3)) {
      servers_[server].reset();
      return;
    }
    if (!servers_[server]) come(server);
    backs_[server]->mood = static_cast<Back::Mood>(random_.below(5));
  }

  std::shared_ptr<const gateway::SharedUpstream> configuration(const gateway::SharedUpstream* before) {
    options_.servers.clear();
    for (std::size_t i = 0; i < listed_; ++i) {
      options_.servers.push_back({.url = {"http://" + name(i)}, .weight = static_cast<std::uint32_t>(1 + i % 2)});
    }
    return std::make_shared<gateway::SharedUpstream>(options_, before);
  }
  // Each core takes the new configuration at a different time.
  void reload(std::size_t count) {
    listed_ = count;
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
    const std::string bytes =
        pattern(id, random_.chance(0.1) ? random_.between(60'000, 100'000) : random_.between(1, 3000));
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
    const std::shared_ptr<gateway::Proxy> proxy = proxies_[random_.below(core_count)];
    Response response = co_await proxy->handle(exchange);
    if (response.status != 200) {
      done = true;
      ++tally.refused;
      EXPECT_TRUE(response.status == 502 || response.status == 503 || response.status == 504) << response.status;
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

  core::Mailbox mailbox_{reactor};
  core::Mesh mesh_{core_count, 4};  // small enough to be full at times
  std::vector<std::unique_ptr<core::MeshPort>> ports_;
  Random random_;
  std::array<Instant, core_count> busy_until_{};
  std::map<std::uint64_t, int> executed_;
  std::map<std::uint64_t, Method> kinds_;
  std::vector<std::unique_ptr<Back>> backs_;
  std::vector<std::unique_ptr<http::Server>> servers_;
  gateway::UpstreamOptions options_;
  std::size_t listed_ = 0;
  std::shared_ptr<const gateway::SharedUpstream> shared_;
  std::vector<std::shared_ptr<gateway::Upstream>> upstreams_;
  std::vector<std::shared_ptr<gateway::Proxy>> proxies_;
  std::uint64_t last_id_ = 0;
  core::TaskGroup clients_;
};

core::Faults storm() {
  return {.short_read = 0.1,
          .short_write = 0.1,
          .would_block = 0.1,
          .split = 0.2,
          .stall = 0.02,
          .reset = 0.01,
          .vanish = 0.005,
          .refuse = 0.05,
          .accept_abort = 0.02};
}

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
    World world(seed() + static_cast<std::uint64_t>(i), i % 3 == 0 ? core::Faults{} : storm());
    world.run(120, 8s);
    world.count();
    all += world.tally;
  }
  std::printf(
      "%d worlds: %llu requests, %llu answered, %llu refused, %llu broken, %llu left, %llu repeated; %.0f ejections, "
      "%.0f retries\n",
      count, static_cast<unsigned long long>(all.asked), static_cast<unsigned long long>(all.answered),
      static_cast<unsigned long long>(all.refused), static_cast<unsigned long long>(all.broken),
      static_cast<unsigned long long>(all.left), static_cast<unsigned long long>(all.repeated), all.ejections,
      all.retries);
  EXPECT_GT(all.answered, all.asked / 4);
  EXPECT_GT(all.refused, 0u);
  EXPECT_GT(all.broken, 0u);
  EXPECT_GT(all.repeated, 0u);
  EXPECT_GT(all.ejections, count / 2);
  EXPECT_GT(all.retries, count);
}

TEST(GatewaySoak, EveryServerComesBack) {
  const int count = worlds(sanitized ? 10 : 60);
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("world " + std::to_string(i));
    World world(seed() + 100'000 + static_cast<std::uint64_t>(i), storm());
    world.run(80, 5s);
    world.heal();
    world.count();
  }
}

TEST(GatewaySoak, TheSameSeedGivesTheSameHistory) {
  std::uint64_t histories[2];
  for (std::uint64_t& history : histories) {
    World world(seed() + 7, storm());
    world.run(60, 5s);
    history = world.reactor.history();
  }
  EXPECT_EQ(histories[0], histories[1]);
}

}  // namespace
}  // namespace sluice::sim
