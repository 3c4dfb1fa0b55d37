// The protocols between the cores of a gateway: permits, rate limits, keys and upstreams, over rings that are nearly
// always full. Three cores step in random order, each with a clock that lags behind. Reloads change and replace their
// parts, a core may be late with a reload, and cores end at any step. There are never too many permits, and none is
// lost. No rate is exceeded, and no token is lost. Every request gets an answer in time. All cores see the newest keys
// and agree about the servers of an upstream.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/mesh.h"
#include "core/simulated_reactor.h"
#include "gateway/jwt/key_source.h"
#include "gateway/limits/permits.h"
#include "gateway/limits/rate_limiter.h"
#include "gateway/proxy/upstream.h"
#include "http/server.h"
#include "simulation.h"

namespace sluice::sim {
namespace {

using core::Task;
using gateway::SharedUpstream;
using gateway::Upstream;
using gateway::jwt::KeySource;
using gateway::jwt::SharedKeySource;
using gateway::limits::Permits;
using gateway::limits::RateLimiter;

constexpr unsigned core_count = 3;
constexpr std::uint32_t failures_to_eject = 3;
constexpr Duration fetch_timeout = 1s;
constexpr Duration slack = 3ms;  // a timer may fire one tick late, in the next turn

struct Tally {
  std::array<std::uint64_t, 5> permits{};  // by Permits::Answer
  std::array<std::uint64_t, 5> rates{};    // by RateLimiter::Answer
  std::uint64_t notified = 0;              // waits for keys that ended before their deadline
  std::uint64_t timed_out = 0;
  std::uint64_t ended = 0;  // cores that ended while others ran
  std::uint64_t reloads = 0;
  std::uint64_t kept = 0;    // steps after which a message waited for room
  std::uint64_t judged = 0;  // results of requests to servers
};

// Runs at the end of a scope, also when a request is cancelled.
struct Finally {
  explicit Finally(std::function<void()> of) : end(std::move(of)) {}
  Finally(const Finally&) = delete;
  ~Finally() { end(); }
  const std::function<void()> end;
};

// A key that this core owns.
gateway::limits::Key key_of(unsigned owner) {
  return {.low = owner + 1, .high = ((std::uint64_t{owner} << 32) / core_count + 1000) << 32};
}

// Publishes a key whose id is its version.
class Issuer final : public http::Handler {
 public:
  enum class Mood : std::uint8_t { well, slow, fails, hangs };

  explicit Issuer(core::Reactor& reactor) : reactor_(reactor) {}
  core::Async<http::Response> handle(http::Exchange&) override { return answer(); }

  Mood mood = Mood::well;
  std::uint64_t version = 1;
  int turns_to_watch = 0;  // of core 0, which may hand the set to the thread that parses it

 private:
  Task<http::Response> answer() {
    if (mood == Mood::slow) co_await Sleep(reactor_, 30ms);
    if (mood == Mood::hangs) co_await Sleep(reactor_, 1h);
    if (mood == Mood::fails) co_return http::problem(500);
    turns_to_watch = 64;
    Buffer body;
    body.append(R"({"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":")" +
                std::to_string(version) + R"("}]})");
    http::Response response;
    response.body = std::move(body);
    co_return response;
  }
  core::Reactor& reactor_;
};

// The thread that parses sets of keys, of all worlds.
struct Parser {
  // Waits until all that was given to it is parsed, so that each seed has one history.
  void finish() {
    std::promise<void> done;
    core::TaskGroup group;
    group.spawn([](Parser& self, std::promise<void>& done) -> Task<void> {
      auto work = [&done] { done.set_value(); };
      (void)co_await self.pool.run(self.mailbox, std::move(work));
    }(*this, done));
    done.get_future().wait();
    group.cancel();
    mailbox.deliver();
  }

  core::SimulatedReactor reactor{1};
  core::Mailbox mailbox{reactor};  // of nobody
  core::BlockingPool pool{1, 16};
};

struct Parts;

// One version of a configuration.
struct Version {
  gateway::limits::Room room;
  gateway::limits::Rate rate;
  std::shared_ptr<const SharedUpstream> upstream;
};

// The limits, keys and upstream that all cores share, through all versions in which they stay.
struct Generation {
  // The permits and the allowances of the key of one owner.
  struct Line {
    std::uint32_t held = 0;  // by requests
    std::uint32_t most = 0;  // the largest limit so far
    std::uint32_t running = 0;
    unsigned tickets = 0;
    std::array<std::set<unsigned>, core_count> waiting;  // tickets of waiting requests, by core
    std::vector<std::pair<Instant, Instant>> allowed;    // by the owner's clock: when it was asked, and answered
  };

  std::shared_ptr<gateway::limits::Shared> permits = std::make_shared<gateway::limits::Shared>(core_count);
  std::shared_ptr<gateway::limits::Shared> rates = std::make_shared<gateway::limits::Shared>(core_count);
  std::shared_ptr<SharedKeySource> keys;
  std::vector<Version> versions;
  std::array<std::weak_ptr<Parts>, core_count> parts;
  std::array<Line, core_count> lines;
  double fetches = 0;               // that succeeded
  std::uint64_t at_last_fetch = 0;  // the issuer's version when it ended
  std::uint64_t least = 0;          // the version that cores must see at least
};

struct One {
  enum class Stage : std::uint8_t { runs, refuses, flushes, ended };

  One(core::Mesh& mesh, unsigned core, std::uint64_t seed) : reactor(seed), port(mesh, core, reactor) {}
  core::SimulatedReactor reactor;
  core::Mailbox mailbox{reactor};
  core::MeshPort port;
  std::shared_ptr<Parts> parts;  // null: this core has not loaded a configuration yet
  Stage stage = Stage::runs;
};

// One core's parts of a generation.
struct Parts {
  Parts(Generation& of, One& one, core::BlockingPool& pool)
      : of(of),
        permits(Permits::of(of.permits, one.reactor, one.port, of.versions.back().room, 100)),
        limiter(RateLimiter::of(of.rates, one.reactor, one.port, of.versions.back().rate, 100)),
        source(KeySource::make(of.keys, one.reactor, one.mailbox, one.port, pool)),
        upstream(one.reactor, one.mailbox, &one.port, of.versions.back().upstream) {
    serve(of.versions.size() - 1);
  }
  void serve(std::size_t next) {
    version = next;
    permits->serve(now().room, this);
    limiter->serve(now().rate, this);
    upstream.serve(now().upstream);
  }
  [[nodiscard]] const Version& now() const { return of.versions[version]; }
  [[nodiscard]] std::uint64_t keys_version() {
    const auto& set = keys.get();
    return set ? std::stoull(*set->keys.at(0)->id()) : 0;
  }

  Generation& of;
  std::shared_ptr<Permits> permits;
  std::shared_ptr<RateLimiter> limiter;
  std::shared_ptr<KeySource> source;
  gateway::jwt::CurrentKeys::View keys{of.keys->keys};
  Upstream upstream;
  std::size_t version = 0;
};

class World {
 public:
  World(std::uint64_t seed, Parser& parser, Tally& tally)
      : random_(seed), parser_(parser), tally_(tally), mesh_(core_count, 1 + random_.below(2)) {
    for (unsigned i = 0; i < core_count; ++i) cores_[i] = std::make_unique<One>(mesh_, i, random_.next());
    issuer_.emplace(cores_[0]->reactor);
    server_.emplace(cores_[0]->reactor, *issuer_, http::ServerOptions{});
    EXPECT_TRUE(server_->listen(*core::Address::parse("127.0.0.1:80")));
    reload(false);
    for (unsigned i = 0; i < core_count; ++i) {
      if (random_.chance(0.7)) catch_up(i);
    }
  }
  ~World() {
    requests_.clear();
    for (const auto& one : cores_) one->parts.reset();
    parser_.finish();
  }

  void run() {
    for (int i = 0; i < 500; ++i) {
      act();
      check_permits();
    }
    issuer_->mood = Issuer::Mood::well;
    for (unsigned i = 0; i < core_count; ++i) catch_up(i);
    settle();
    rounds(60, 10ms);  // reports of requests that passed, and loans
    settle();
    examine_permits();
    examine_upstream();
    examine_rates();
    examine_keys();
    examine_late_core();
    for (int i = 0; i < 20; ++i) ask();
    for (unsigned i = 0; i < core_count; ++i) begin_to_end((i + busy_core_) % core_count);
    rounds(60, 1ms);
    EXPECT_TRUE(std::ranges::all_of(cores_, [](const auto& one) { return one->stage == One::Stage::ended; }));
    EXPECT_TRUE(requests_.empty());
    for (const auto& generation : generations_) check_rates(*generation);
  }

 private:
  struct Request {
    unsigned core = 0;
    core::TaskGroup task{};
  };

  // ---- The machine ----

  [[nodiscard]] bool runs(unsigned core) const { return cores_[core]->stage == One::Stage::runs; }
  [[nodiscard]] bool all_run() const { return runs(0) && runs(1) && runs(2); }
  [[nodiscard]] Instant clock(unsigned core) const { return cores_[core]->reactor.now(); }
  unsigned any_core() { return static_cast<unsigned>(random_.below(core_count)); }

  void step(unsigned core) {
    One& one = *cores_[core];
    if (one.stage == One::Stage::ended) return;
    do {
      one.mailbox.deliver();
      one.port.drain();
      (void)one.port.prepare_to_sleep();
      one.reactor.turn(now_);
      one.port.awake();
      if (core == 0 && issuer_->turns_to_watch > 0) {
        --issuer_->turns_to_watch;
        parser_.finish();
        check_keys();
      }
    } while (one.reactor.now() < now_);
    std::erase_if(requests_, [](const Request& request) { return request.task.empty(); });
    if (one.stage == One::Stage::refuses && one.port.quiet()) {
      std::erase_if(requests_, [core](const Request& request) { return request.core == core; });
      one.port.cancel_served();
      one.stage = One::Stage::flushes;
    }
    if (one.stage == One::Stage::flushes && one.port.flushed()) {
      one.port.end();
      for (const auto& other : cores_) EXPECT_FALSE(other->port.open(core)) << "it may still send messages";
      one.mailbox.close();
      one.parts.reset();
      one.stage = One::Stage::ended;
    }
    if (one.port.kept((core + 1) % core_count) + one.port.kept((core + 2) % core_count) != 0) ++tally_.kept;
    check_order(core);
  }
  void begin_to_end(unsigned core) {
    if (!runs(core)) return;
    cores_[core]->stage = One::Stage::refuses;
    cores_[core]->port.refuse_new();
  }
  void rounds(int count, Duration each) {
    for (int i = 0; i < count; ++i) {
      now_ += each;
      const unsigned first = any_core();
      const unsigned stride = 1 + static_cast<unsigned>(random_.below(2));
      for (unsigned k = 0; k < core_count; ++k) step((first + k * stride) % core_count);
      check_permits();
    }
  }
  // Steps until every request has its answer and no message waits for room.
  void settle(Duration each = 1ms) {
    const auto keeps = [](const auto& one) { return one->port.kept(0) + one->port.kept(1) + one->port.kept(2) != 0; };
    int calm = 0;
    for (int i = 0; i < 2000 && calm < 8; ++i) {
      rounds(1, each);
      calm = requests_.empty() && std::ranges::none_of(cores_, keeps) ? calm + 1 : 0;
    }
    EXPECT_EQ(calm, 8) << requests_.size() << " requests still wait";
    requests_.clear();
  }

  // ---- Configurations ----

  // The next configuration. As in a running program, no core is more than one behind.
  void reload(bool may_stay = true) {
    for (const auto& one : cores_) {
      if (one->stage == One::Stage::runs && one->parts && !is_newest(*one->parts)) return;
    }
    ++tally_.reloads;
    const bool stays = may_stay && random_.chance(0.8);
    if (!stays) {
      generations_.push_back(std::make_unique<Generation>());
      gateway::jwt::Options options;
      options.jwks_url = Located<std::string>("http://127.0.0.1/keys");
      options.jwks_timeout.value = fetch_timeout;
      options.jwks_every.value = 10min;
      generations_.back()->keys = *SharedKeySource::make(options, core_count);
      generations_.back()->at_last_fetch = issuer_->version;
    }
    Generation& of = *generations_.back();
    Version next;
    next.room = {.requests = static_cast<std::uint32_t>(random_.between(1, 3)),
                 .queue = static_cast<std::uint32_t>(random_.below(5)),
                 .wait = 5ms + random_.up_to(40ms)};
    next.rate = {.interval_ns = static_cast<std::int64_t>(random_.between(50, 200)) * 1'000'000,
                 .burst = stays ? of.versions[0].rate.burst : static_cast<std::int64_t>(random_.between(1, 60))};
    gateway::UpstreamOptions options;
    options.name = Located<std::string>("back");
    options.eject = {.after = failures_to_eject, .time = {300ms}, .longest = 1s, .slow_start = 0s};
    const std::uint64_t missing = random_.below(5);  // 4: none
    for (std::uint64_t i = 0; i < 4; ++i) {
      if (i != missing) options.servers.push_back({.url = {"http://10.0.0." + std::to_string(i)}});
    }
    const SharedUpstream* const before = stays ? of.versions.back().upstream.get() : nullptr;
    const auto upstream = std::make_shared<SharedUpstream>(options, before, nullptr, core_count);
    if (before != nullptr) upstream->drains = before->drains;
    next.upstream = upstream;
    for (Generation::Line& line : of.lines) line.most = std::max(line.most, next.room.requests);
    of.versions.push_back(std::move(next));
  }
  [[nodiscard]] bool is_newest(const Parts& parts) const {
    return &parts.of == generations_.back().get() && parts.version + 1 == parts.of.versions.size();
  }
  void catch_up(unsigned core) {
    One& one = *cores_[core];
    if (!runs(core) || (one.parts && is_newest(*one.parts))) return;
    Generation& newest = *generations_.back();
    if (one.parts && &one.parts->of == &newest) {
      one.parts->serve(newest.versions.size() - 1);
    } else {
      one.parts = std::make_shared<Parts>(newest, one, parser_.pool);
      newest.parts[core] = one.parts;
    }
    for (const std::string& server : used(core)) {
      EXPECT_FALSE(one.parts->now().upstream->drains->has(server)) << "a new part sends requests to a drained server";
    }
  }

  // ---- What happens ----

  void act() {
    now_ += random_.up_to(200us);
    const unsigned core = any_core();
    switch (random_.below(20)) {
      case 0:
        if (random_.chance(0.5)) catch_up(core);
        break;
      case 1:
        if (random_.chance(0.1)) reload();
        if (random_.chance(0.2)) ++issuer_->version;
        if (random_.chance(0.3)) issuer_->mood = static_cast<Issuer::Mood>(random_.below(4));
        break;
      case 2:
        if (may_end_ && random_.chance(0.05) && std::exchange(endings_, endings_ + 1) < 2) {
          begin_to_end(core);
          ++tally_.ended;
        }
        if (random_.chance(0.2)) now_ += random_.chance(0.1) ? KeySource::unknown_every + 1s : random_.up_to(200ms);
        break;
      case 3:
        if (const auto& owner = cores_[owner_of_upstream()]->parts; owner && runs(owner_of_upstream())) {
          owner->upstream.drain("10.0.0." + std::to_string(random_.below(4)) + ":80", random_.chance(0.4));
        }
        break;
      case 4:
        if (!requests_.empty() && random_.chance(0.5)) {
          requests_.erase(std::next(requests_.begin(), static_cast<std::ptrdiff_t>(random_.below(requests_.size()))));
        }
        break;
      case 5:
      case 6:
      case 7:
      case 8:
      case 9:
        ask();
        break;
      default:
        step(core);
    }
  }
  // A request of any kind on any core.
  void ask() {
    const unsigned core = any_core();
    const std::shared_ptr<Parts> parts = cores_[core]->parts;
    if (!parts || !runs(core)) return;
    const unsigned owner = random_.chance(0.6) ? busy_core_ : any_core();
    switch (random_.below(8)) {
      case 0:
        return begin(core, fetch_keys(parts, core, nullptr));
      case 1:
      case 2:
        return begin(core, use_rate(parts, core, owner));
      case 3:
      case 4:
        return begin(core, use_upstream(parts, core));
      default:
        const Instant until = random_.chance(0.2) ? clock(core) + random_.up_to(10ms) : never;
        return begin(core, hold_permit(parts, core, owner, random_.up_to(20ms), until));
    }
  }
  void begin(unsigned core, Task<void> task) {
    requests_.emplace_back();
    requests_.back().core = core;
    requests_.back().task.spawn(std::move(task));
  }
  // Whether the owner has its part.
  [[nodiscard]] bool is_there(const Generation& of, unsigned owner) const {
    return runs(owner) && !of.parts[owner].expired();
  }

  Task<void> hold_permit(std::shared_ptr<Parts> parts, unsigned core, unsigned owner, Duration time, Instant until) {
    Generation::Line& line = parts->of.lines[owner];
    const unsigned ticket = ++line.tickets;
    line.waiting[core].insert(ticket);
    std::optional<Finally> waiting([&] { line.waiting[core].erase(ticket); });
    const auto& room = parts->now().room;
    const Instant deadline = std::min(clock(core) + (room.queue != 0 ? room.wait : Permits::patience), until);
    const bool was_there = is_there(parts->of, owner);
    const Permits::Answer answer = co_await parts->permits->take(key_of(owner), until);
    waiting.reset();
    ++tally_.permits.at(static_cast<std::size_t>(answer));
    EXPECT_LE(clock(core), deadline + slack);
    EXPECT_NE(answer, Permits::Answer::full);
    if (answer == Permits::Answer::late) EXPECT_GE(clock(core), deadline);
    if (answer == Permits::Answer::alone) EXPECT_FALSE(was_there && is_there(parts->of, owner));
    if (answer != Permits::Answer::granted) co_return;
    ++line.held;
    const Finally held([&] {
      --line.held;
      parts->permits->give_back(key_of(owner));
    });
    granted_[core].emplace_back(&line, ticket);
    co_await Sleep(cores_[core]->reactor, time);
  }

  Task<void> use_rate(std::shared_ptr<Parts> parts, unsigned core, unsigned owner) {
    const Instant begin = clock(core);
    const Instant begin_there = clock(owner);
    const bool was_there = is_there(parts->of, owner);
    const RateLimiter::Verdict verdict = co_await parts->limiter->take(key_of(owner));
    ++tally_.rates.at(static_cast<std::size_t>(verdict.answer));
    EXPECT_LE(clock(core), begin + RateLimiter::patience + slack);
    using Answer = RateLimiter::Answer;
    EXPECT_NE(verdict.answer, Answer::full);
    if (verdict.answer == Answer::late) EXPECT_GE(clock(core), begin + RateLimiter::patience);
    if (verdict.answer == Answer::alone) EXPECT_FALSE(was_there && is_there(parts->of, owner));
    if (verdict.answer != Answer::allowed) co_return;
    parts->of.lines[owner].allowed.emplace_back(begin_there, clock(owner));
  }

  Task<void> fetch_keys(std::shared_ptr<Parts> parts, unsigned core, bool* is_notified) {
    const Instant deadline = clock(core) + fetch_timeout;
    co_await parts->source->fetch();
    EXPECT_LE(clock(core), deadline + slack);
    EXPECT_GE(parts->keys_version(), parts->of.least);
    const bool in_time = clock(core) < deadline;
    ++(in_time ? tally_.notified : tally_.timed_out);
    if (in_time && is_notified != nullptr) *is_notified = true;
  }

  Task<void> use_upstream(std::shared_ptr<Parts> parts, unsigned core) {
    auto attempt = parts->upstream.begin(*parts->now().upstream, exchange_);
    if (!attempt) co_return;
    co_await Sleep(cores_[core]->reactor, random_.up_to(5ms));
    if (random_.chance(0.1)) co_return;
    attempt->judge(random_.chance(attempt->server().address.starts_with("10.0.0.0") ? 0.3 : 0.6));
    ++tally_.judged;
  }

  // ---- What is true at any time ----

  void check_permits() {
    for (const auto& generation : generations_) {
      for (unsigned owner = 0; owner < core_count; ++owner) {
        Generation::Line& line = generation->lines[owner];
        EXPECT_LE(line.held, line.most);
        const auto parts = generation->parts[owner].lock();
        if (!parts) continue;
        const std::uint32_t running = parts->permits->running(key_of(owner));
        EXPECT_LE(line.held, running);
        if (running < parts->now().room.requests) EXPECT_EQ(parts->permits->waiting(key_of(owner)), 0U);
        // A reload may lower the limit, but then no request joins those that run.
        EXPECT_LE(running, std::max(parts->now().room.requests, std::exchange(line.running, running)));
      }
    }
  }
  // A core's requests get their permits in the order in which they asked.
  void check_order(unsigned core) {
    for (const auto& [line, ticket] : granted_[core]) {
      for (unsigned earlier : line->waiting[core]) EXPECT_GT(earlier, ticket);
    }
    granted_[core].clear();
  }
  // After each turn of the core that fetches.
  void check_keys() {
    const auto owner = generations_.back()->parts[0].lock();
    if (!owner) return;
    Generation& of = owner->of;
    const double fetches = owner->source->readings().at(0).value;
    if (std::exchange(of.fetches, fetches) != fetches) {
      of.least = std::exchange(of.at_last_fetch, issuer_->version);
    }
    for (const auto& one : of.parts) {
      if (const auto parts = one.lock()) EXPECT_GE(parts->keys_version(), of.least);
    }
  }
  // In any time, at most the burst and the tokens of that time.
  static void check_rates(const Generation& of) {
    const std::int64_t burst = of.versions[0].rate.burst;
    std::int64_t interval = INT64_MAX;
    for (const Version& version : of.versions) interval = std::min(interval, version.rate.interval_ns);
    for (const Generation::Line& line : of.lines) {
      for (const auto& [begin, unused] : line.allowed) {
        std::vector<Instant> ends;
        for (const auto& [other, end] : line.allowed) {
          if (other >= begin) ends.push_back(end);
        }
        std::ranges::sort(ends);
        for (std::size_t n = 0; n < ends.size(); ++n) {
          // A change of the rate rounds to a nanosecond.
          const std::int64_t time = (ends[n] - begin).count() + static_cast<std::int64_t>(of.versions.size());
          ASSERT_LE(static_cast<std::int64_t>(n + 1), burst + time / interval);
        }
      }
    }
  }

  // ---- What is true once the world has settled ----

  void examine_permits() {
    for (unsigned owner = 0; owner < core_count; ++owner) {
      const auto parts = cores_[owner]->parts;
      if (!parts || !runs(owner)) continue;
      Generation::Line& line = parts->of.lines[owner];
      EXPECT_EQ(parts->permits->running(key_of(owner)), 0U);
      EXPECT_EQ(parts->permits->waiting(key_of(owner)), 0U);
      const auto limit = parts->now().room.requests;
      for (std::uint32_t i = 0; i <= limit; ++i) {
        const unsigned drawn = any_core();
        const unsigned core = runs(drawn) ? drawn : owner;
        begin(core, hold_permit(cores_[core]->parts, core, owner, 1h, never));
        rounds(12, 50us);
        EXPECT_EQ(line.held, std::min(limit, i + 1));
      }
      rounds(12, 5ms);  // the last one stops waiting
      EXPECT_EQ(parts->permits->running(key_of(owner)), limit);
      EXPECT_EQ(parts->permits->waiting(key_of(owner)), 0U);
      requests_.clear();
      settle();
      EXPECT_EQ(parts->permits->running(key_of(owner)), 0U);
      EXPECT_EQ(parts->permits->waiting(key_of(owner)), 0U);
    }
  }

  // After a pause the whole burst is there. A core that ended may have taken lent tokens with it.
  void examine_rates() {
    if (!all_run()) return;
    const auto& rate = generations_.back()->versions.back().rate;
    // An account fills at the rate of its last request.
    std::int64_t slowest = 0;
    for (const Version& version : generations_.back()->versions) slowest = std::max(slowest, version.rate.interval_ns);
    rounds(20, Duration(slowest * rate.burst / 20) + 20ms);
    const auto& allowed = generations_.back()->lines[busy_core_].allowed;
    const std::size_t before = allowed.size();
    const auto burst = static_cast<std::size_t>(rate.burst);
    for (std::size_t i = 0; i < burst + 2; ++i) {
      const unsigned core = any_core();
      begin(core, use_rate(cores_[core]->parts, core, busy_core_));
    }
    settle(20us);
    for (std::size_t last = 0; last != allowed.size();) {
      last = allowed.size();
      begin(busy_core_, use_rate(cores_[busy_core_]->parts, busy_core_, busy_core_));
      settle(20us);
    }
    EXPECT_GE(allowed.size() - before, burst);
  }

  void examine_keys() {
    if (!runs(0)) return;
    rounds(45, 1s);  // the last fetch has succeeded, and tokens may cause another one
    ++issuer_->version;
    for (const char* const when : {"a fetch", "soon after a fetch"}) {
      std::array<bool, core_count> is_notified{};
      for (unsigned i = 0; i < core_count; ++i) {
        if (runs(i)) begin(i, fetch_keys(cores_[i]->parts, i, &is_notified[i]));
      }
      settle();
      for (unsigned i = 0; i < core_count; ++i) {
        if (!runs(i)) continue;
        EXPECT_TRUE(is_notified[i]) << when << ", core " << i;
        EXPECT_EQ(cores_[i]->parts->keys_version(), issuer_->version) << when << ", core " << i;
      }
    }
  }

  [[nodiscard]] static unsigned owner_of_upstream() {
    return static_cast<unsigned>(gateway::hash_of("back") % core_count);
  }
  // The servers that this core sends requests to.
  std::set<std::string> used(unsigned core) {
    std::set<std::string> names;
    Parts& parts = *cores_[core]->parts;
    for (int i = 0; i < 12; ++i) {
      const auto attempt = parts.upstream.begin(*parts.now().upstream, exchange_);
      if (attempt) names.insert(attempt->server().address);
    }
    return names;
  }
  // All cores send requests to the servers that the owner would send them to.
  void check_agreement() {
    std::map<std::string_view, std::set<std::string>> in;  // the enabled servers by state
    std::set<std::string> enabled;
    for (const auto& server : cores_[owner_of_upstream()]->parts->upstream.status()) {
      if (server.is_drained) continue;
      enabled.insert(server.name);
      in[server.state].insert(server.name);
    }
    const std::set<std::string>& up = in["up"].empty() ? enabled : in["up"];
    for (unsigned i = 0; i < core_count; ++i) {
      if (!runs(i)) continue;
      std::set<std::string> names = used(i);
      // The one core that has a permit may try the server.
      std::erase_if(names, [&](const std::string& name) { return in["probing"].contains(name) && !up.contains(name); });
      EXPECT_EQ(names, up) << "core " << i;
    }
  }
  // Judges one request to this server, or several to any.
  void send(unsigned core, const std::string& only, bool passes) {
    Parts& parts = *cores_[core]->parts;
    for (int i = 0; i < 12; ++i) {
      auto attempt = parts.upstream.begin(*parts.now().upstream, exchange_);
      if (!attempt || (!only.empty() && attempt->server().address != only)) continue;
      attempt->judge(passes);
      if (!only.empty()) return;
    }
  }
  void examine_upstream() {
    if (!runs(owner_of_upstream())) return;
    check_agreement();
    if (!all_run()) return;  // the permit to try a server may be with a core that has ended
    Upstream& owner = cores_[owner_of_upstream()]->parts->upstream;
    for (const auto& server : owner.status()) owner.drain(server.name, false);
    const auto is_up = [](const Upstream::Status& server) { return server.state == "up"; };
    for (int i = 0; i < 60 && !(i > 3 && std::ranges::all_of(owner.status(), is_up)); ++i) {
      for (unsigned core = 0; core < core_count; ++core) send(core, "", true);
      rounds(10, 30ms);
    }
    for (const auto& server : owner.status()) EXPECT_EQ(server.state, "up") << server.name;
    check_agreement();
    eject_one(owner);
    check_agreement();
  }
  // Each failed request counts once.
  void eject_one(Upstream& owner) {
    const std::string name = owner.status().at(1).name;
    for (std::uint32_t i = 1; i <= failures_to_eject; ++i) {
      const unsigned drawn = any_core();
      send(cores_[drawn]->parts && is_newest(*cores_[drawn]->parts) ? drawn : owner_of_upstream(), name, false);
      rounds(8, 2ms);
      EXPECT_EQ(owner.status().at(1).state, i < failures_to_eject ? "up" : "ejected") << "after failure " << i;
    }
  }
  // A core that has its parts later than the others asks for the states of the servers.
  void examine_late_core() {
    if (!all_run()) return;
    reload(false);
    const unsigned late = (owner_of_upstream() + 1) % core_count;
    for (unsigned i = 0; i < core_count; ++i) {
      if (i != late) catch_up(i);
    }
    eject_one(cores_[owner_of_upstream()]->parts->upstream);
    catch_up(late);
    rounds(8, 2ms);
    check_agreement();
  }

  Random random_;
  Parser& parser_;
  Tally& tally_;
  core::Mesh mesh_;
  std::array<std::unique_ptr<One>, core_count> cores_;
  std::optional<Issuer> issuer_;
  std::optional<http::Server> server_;
  Instant now_{1h};
  const bool may_end_ = random_.chance(0.5);
  const unsigned busy_core_ = any_core();  // owns the key of most requests
  int endings_ = 0;                        // at random
  http::Exchange exchange_;
  std::vector<std::unique_ptr<Generation>> generations_;
  std::array<std::vector<std::pair<Generation::Line*, unsigned>>, core_count> granted_;  // since its last step
  std::list<Request> requests_;
};

TEST(BetweenCoresSoak, NothingIsLostDoubledOrCrossed) {
  const char* const given = std::getenv("SLUICE_WORLDS");
  const int count = given != nullptr ? std::atoi(given) : sanitized ? 250 : 1500;
  Parser parser;
  Tally all;
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("world " + std::to_string(i));
    World(seed() + static_cast<std::uint64_t>(i), parser, all).run();
  }
  const std::string report = fmt::format(
      "{} worlds: {} reloads, {} cores ended early; {} steps with messages that wait for room; permits granted, "
      "refused, "
      "full, late, alone: {}; rates allowed, refused, full, late, alone: {}; waits for keys: {}, of them {} until the "
      "deadline; {} results of requests",
      count, all.reloads, all.ended, all.kept, fmt::join(all.permits, ", "), fmt::join(all.rates, ", "),
      all.notified + all.timed_out, all.timed_out, all.judged);
  std::puts(report.c_str());
  if (count < 50) return;
  for (const std::size_t answer : {0U, 1U, 3U, 4U}) {
    EXPECT_GT(all.permits.at(answer), 0U) << answer;
    EXPECT_GT(all.rates.at(answer), 0U) << answer;
  }
  EXPECT_GT(all.ended, 0U);
  EXPECT_GT(all.kept, all.reloads);
}

}  // namespace
}  // namespace sluice::sim
