// One core of the real program on a simulated network, while its configuration is replaced again and again: endpoints,
// routes to simulated servers, WebSockets, header fields. Each answer comes from one configuration, which was served at
// some time during the request. A reload cuts nothing that it keeps. In the end one configuration is left.
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "app/config/load.h"
#include "app/prepare/prepare.h"
#include "app/worker.h"
#include "base/log_writer.h"
#include "core/core.h"
#include "core/simulated_reactor.h"
#include "http/client/connection.h"
#include "http/server.h"
#include "net/stream.h"
#include "runtime/life.h"
#include "simulation.h"
#include "sql/sqlite/script.h"

namespace sluice::sim {
namespace {

using core::Async;
using core::Task;
using http::Exchange;
using http::Request;
using http::Response;

constexpr std::string_view address = "127.0.0.1:8080";
constexpr std::size_t long_body = 400'000;

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// ---- The configurations ----

// Odd configurations have the second server and endpoint. The second WebSocket comes and goes more slowly.
bool is_odd(std::uint64_t generation) { return generation % 2 == 1; }
bool has_second_socket(std::uint64_t generation) { return generation / 5 % 2 == 0; }

std::string configuration(const std::string& folder, std::uint64_t generation, std::string_view stamp) {
  const std::string number = std::to_string(generation);
  std::string text = "[server]\nlisten = [\"" + std::string(address) +
                     "\"]\ncores = 1\nidle_timeout = \"60s\"\n[server.headers]\nX-Generation = \"" +
                     std::string(stamp) + "\"\n[admin]\nlisten = \"\"\n[database.main]\nurl = \"sqlite:" + folder +
                     "/a.db\"\n[[endpoint]]\npath = \"/number\"\nreturns = \"object\"\nget = \"SELECT " + number +
                     " AS number\"\n[[upstream]]\nname = \"back\"\nservers = [\"http://127.0.0.1:" +
                     (is_odd(generation) ? "9002" : "9001") +
                     "\"]\n[[route]]\npath = \"/back/{rest...}\"\nupstream = \"back\"\n" +
                     "[[websocket]]\npath = \"/stays\"\nhandler = \"echo\"\n";
  if (is_odd(generation))
    text += "[[endpoint]]\npath = \"/odd\"\nreturns = \"object\"\nget = \"SELECT " + number + " AS number\"\n";
  if (has_second_socket(generation)) text += "[[websocket]]\npath = \"/comes\"\nhandler = \"echo\"\n";
  return text;
}

// A server behind the routes. /back/KIND/SIZE/ID: the answer follows from the target and from the request's body.
class Back final : public http::Handler {
 public:
  Back(core::Reactor& reactor, std::string_view name) : reactor_(reactor), name_(name) {}

  Async<Response> handle(Exchange& exchange) override { return answer(exchange.request); }

 private:
  class Slow final : public http::BodySource {
   public:
    Slow(core::Reactor& reactor, std::uint64_t id, std::string bytes)
        : reactor_(reactor), random_(id), bytes_(std::move(bytes)) {}
    Async<Result<Progress>> pull(Buffer& out) override { return pull_later(out); }

   private:
    Task<Result<Progress>> pull_later(Buffer& out) {
      co_await Sleep(reactor_, random_.up_to(400ms));
      const std::size_t piece = std::min<std::size_t>(bytes_.size() - given_, random_.between(1, 40'000));
      out.append(std::string_view(bytes_).substr(given_, piece));
      given_ += piece;
      co_return given_ == bytes_.size() ? Progress::done : Progress::more;
    }
    core::Reactor& reactor_;
    Random random_;
    const std::string bytes_;
    std::size_t given_ = 0;
  };

  Task<Response> answer(Request& request) {
    std::string_view rest = request.path.substr(std::string_view("/back/").size());
    const auto next = [&rest] {
      const std::string_view piece = rest.substr(0, rest.find('/'));
      rest.remove_prefix(std::min(rest.size(), piece.size() + 1));
      return piece;
    };
    const std::string kind(next());
    const std::uint64_t size = number_of(next());
    const std::uint64_t id = number_of(next());
    std::string bytes = pattern(id, size);
    if (request.body != nullptr) {
      bytes.clear();
      for (;;) {
        const auto piece = co_await request.body->read();
        if (!piece) co_return http::problem(400);
        if (piece->empty()) break;
        bytes += *piece;
      }
    }
    if (kind == "late") co_await Sleep(reactor_, std::chrono::milliseconds(id % 3000));
    Response response;
    response.fields.add("X-Back", name_);
    if (kind == "slow") {
      response.body = std::make_unique<Slow>(reactor_, id, std::move(bytes));
    } else {
      Buffer body;
      body.append(bytes);
      response.body = std::move(body);
    }
    co_return response;
  }

  core::Reactor& reactor_;
  const std::string_view name_;
};

struct Body final : http::BodyReader {
  explicit Body(core::Reactor& on, std::string all, std::uint64_t seed)
      : reactor(on), bytes(std::move(all)), random(seed) {}
  Task<Result<std::string_view>> read() override {
    if (random.chance(0.2)) co_await Sleep(reactor, random.up_to(300ms));
    const std::string_view piece = std::string_view(bytes).substr(given, random.between(1, 20'000));
    given += piece.size();
    co_return piece;
  }
  core::Reactor& reactor;
  const std::string bytes;
  Random random;
  std::size_t given = 0;
};

struct Tally {
  std::uint64_t answered = 0;
  std::uint64_t cut = 0;         // answers, because too many configurations followed theirs
  std::uint64_t broken = 0;      // by network faults
  std::uint64_t spoken = 0;      // WebSocket messages
  std::uint64_t going_away = 0;  // WebSockets closed with 1001
  std::uint64_t switches = 0;
  std::uint64_t forgotten = 0;
};

class World {
 public:
  World(std::uint64_t seed, const core::Faults& faults, bool lossy)
      : core(mesh_, 0, std::make_unique<core::SimulatedReactor>(seed, faults)),
        reactor(static_cast<core::SimulatedReactor&>(core.reactor())),
        even_(reactor, "even"),
        odd_(reactor, "odd"),
        even_server_(reactor, even_, {}),
        odd_server_(reactor, odd_, {}),
        random_(seed),
        lossy_(lossy) {
    std::string folder = testing::TempDir() + "reload-XXXXXX";
    folder_ = mkdtemp(folder.data());
    EXPECT_TRUE(sql::sqlite::run_script(folder_ + "/a.db", "CREATE TABLE t (a)", [] { return false; }));
    EXPECT_TRUE(even_server_.listen(*core::Address::parse("127.0.0.1:9001")));
    EXPECT_TRUE(odd_server_.listen(*core::Address::parse("127.0.0.1:9002")));
    plan_ = plan(0, "0");
    worker.emplace(core, plan_, threads_, logs_, runtime::Descriptors{});
    const std::vector<net::Listening> listening = {{*core::Address::parse(address), false}};
    worker->bind(listening);
    worker->listen({.addresses = listening, .tls = {}, .tickets = {}});
  }
  ~World() {
    clients.cancel();
    worker.reset();
    std::filesystem::remove_all(folder_);
  }

  // Serves the next configuration, or builds one and throws it away.
  void reload() {
    if (random_.chance(0.1)) {
      ++tally.forgotten;
      worker->build_next(plan(served + 1, "forgotten"));
      worker->forget_next();
      return;
    }
    ++tally.switches;
    plan_ = plan(served + 1, std::to_string(served + 1));
    worker->build_next(plan_);
    worker->serve_next();
    ++served;
    // Timers close the cut connections, and the timers' tick is some milliseconds.
    pass(5ms);
    EXPECT_LE(earlier(), double{app::Worker::most_earlier});
  }
  // The number of earlier configurations that answers still need.
  [[nodiscard]] double earlier() const {
    for (const Reading& reading : worker->snapshot().readings) {
      if (reading.name == "sluice_earlier_configurations") return reading.value;
    }
    return -1;
  }

  void populate(int count, Duration time) {
    for (int i = 0; i < count; ++i) {
      clients.spawn(session(random_.next(), random_.up_to(time)));
      if (i % 4 == 0) clients.spawn(talk(random_.next(), random_.up_to(time), time, i % 8 == 0));
    }
  }
  // Sends one request whose answer takes three seconds.
  Task<void> wait_long(Duration begin) {
    Random random(0);
    co_await Sleep(reactor, begin);
    const http::client::ConnectionOptions options{.write_timeout = 200s, .head_timeout = 200s, .idle_timeout = 200s};
    http::client::Connection connection(reactor, options);
    if (co_await connection.connect(*core::Address::parse(address), reactor.now() + 200s)) {
      co_await exchange(connection, random, {.target = "/back/late/0/2999", .id = 2999});
    }
  }
  void pass(Duration time) {
    const Instant until = reactor.now() + time;
    while (reactor.now() < until && !core.stopping()) core.step(until);
  }
  // Reloads until all clients have gone: single reloads with pauses of up to `pause`, and at times many at once.
  void run(Duration pause) {
    const Instant latest = reactor.now() + 2h;
    while (!clients.empty() && failures_ < 10) {
      ASSERT_LT(reactor.now(), latest) << "somebody waits for ever";
      const std::uint64_t burst = random_.chance(0.05) ? 12 : 1;
      for (std::uint64_t i = 0; i < burst; ++i) reload();
      pass(random_.up_to(pause));
    }
  }
  void expect_nothing_left() {
    pass(5min);
    EXPECT_EQ(earlier(), 0);
    EXPECT_EQ(reactor.open_handles(), 3u) << "listeners";
    EXPECT_EQ(plan_.use_count(), 2) << "this one's and the core's";
  }

  core::Mesh mesh_{1};
  core::Core core;
  core::SimulatedReactor& reactor;
  std::uint64_t served = 0;
  std::optional<app::Worker> worker;
  Tally tally;
  bool draining = false;
  core::TaskGroup clients;

 private:
  std::shared_ptr<const app::Plan> plan(std::uint64_t generation, std::string_view stamp) {
    const auto config = app::config::parse(app::config::Source("a.toml", configuration(folder_, generation, stamp)),
                                           [](std::string_view) { return std::optional<std::string>(); });
    if (!config) {
      ADD_FAILURE() << config.error().text();
      std::abort();
    }
    auto prepared = app::prepare(*config, false, plan_.get());
    if (!prepared) {
      ADD_FAILURE() << prepared.error().text;
      std::abort();
    }
    return *prepared;
  }
  void complain(const std::string& who, const std::string& what) {
    ++failures_;
    ADD_FAILURE() << who << ": " << what << " (" << served << " is served)";
  }
  [[nodiscard]] bool excused(const net::Stream& stream) const {
    return draining || reactor.broken_by_fault(stream.handle());
  }

  Task<void> session(std::uint64_t seed, Duration begin) {
    Random random(seed);
    co_await Sleep(reactor, begin);
    http::client::ConnectionOptions options{.write_timeout = 200s, .head_timeout = 200s, .idle_timeout = 200s};
    for (std::uint64_t i = random.between(1, 3); i != 0 && !draining; --i) {
      http::client::Connection connection(reactor, options);
      if (!co_await connection.connect(*core::Address::parse(address), reactor.now() + 200s)) {
        if (!lossy_ && !draining) complain("connect", "failed");
        continue;
      }
      for (std::uint64_t asked = random.between(1, 8); asked != 0; --asked) {
        if (!co_await exchange(connection, random, some_request(random)) || !connection.is_reusable()) break;
        if (random.chance(0.3)) co_await Sleep(reactor, random.up_to(3s));
      }
    }
  }

  struct Asked {
    std::string target;
    std::uint64_t size = 0;
    std::uint64_t id = 0;
    bool has_body = false;
  };
  Asked some_request(Random& random) {
    Asked asked;
    asked.id = ++last_id_;
    const std::uint64_t kind = random.below(6);
    if (kind < 2) {
      asked.target = kind == 0 ? "/number" : "/odd";
      return asked;
    }
    static constexpr const char* kinds[] = {"bytes", "late", "slow", "slow"};
    asked.size = random.chance(0.7) ? random.below(2000) : random.below(long_body);
    asked.has_body = random.chance(0.3);
    asked.target =
        "/back/" + std::string(kinds[kind - 2]) + "/" + std::to_string(asked.size) + "/" + std::to_string(asked.id);
    return asked;
  }

  // Returns false if the connection is over.
  Task<bool> exchange(http::client::Connection& connection, Random& random, Asked asked) {
    const std::uint64_t served_before = served;
    Body body(reactor, pattern(asked.id, asked.size), random.next());
    const bool sends = asked.has_body && asked.size != 0;
    http::client::RequestHead head{.method = asked.has_body ? "POST" : "GET", .target = asked.target, .host = "sim"};
    if (asked.has_body) head.body = {http::h1::BodyFraming::Kind::length, asked.size};
    const auto answer = co_await connection.ask(head, sends ? &body : nullptr);
    if (!answer) {
      // The configuration served at that time may have been cut, because too many followed it.
      judge_end(connection, served_before, asked.target, answer.error().text());
      co_return false;
    }
    std::string stamp;
    std::string back;
    for (const auto& [name, value] : (*answer)->fields) {
      if (name == "X-Generation") stamp = value;
      if (name == "X-Back") back = value;
    }
    const int status = (*answer)->status;
    const std::uint64_t generation = number_of(stamp);
    if (stamp != std::to_string(generation)) complain(asked.target, "the stamp is \"" + stamp + "\"");
    if (generation < served_before || generation > served) {
      complain(asked.target, "asked when " + std::to_string(served_before) + " was served, answered by " + stamp);
    }
    const bool slow = random.chance(0.3);
    Buffer bytes;
    for (;;) {
      const auto progress = co_await connection.read(bytes);
      if (!progress) {
        judge_end(connection, generation, asked.target, "its body: " + progress.error().text());
        co_return false;
      }
      if (*progress == http::BodySource::Progress::done) break;
      if (slow) co_await Sleep(reactor, random.up_to(500ms));
    }
    ++tally.answered;
    if (asked.target == "/number" || asked.target == "/odd") {
      const bool exists = asked.target == "/number" || is_odd(generation);
      const std::string right = "{\"number\":" + stamp + "}\n";
      if (status != (exists ? 200 : 404) || (exists && bytes.view() != right)) {
        complain(asked.target, stamp + " said " + std::to_string(status) + " " + std::string(bytes.view()));
      }
    } else if (status >= 500 && lossy_) {
      ++tally.broken;
    } else if (status != 200 || back != (is_odd(generation) ? "odd" : "even") ||
               bytes.view() != pattern(asked.id, asked.size)) {
      complain(asked.target, stamp + " said " + std::to_string(status) + " of " + back + ", " +
                                 std::to_string(bytes.size()) + " bytes");
    }
    co_return true;
  }
  // Judges a connection that ended before its answer did. The answer was of this configuration or of a later one.
  void judge_end(const http::client::Connection&, std::uint64_t generation, const std::string& who,
                 const std::string& how) {
    if (served - generation >= app::Worker::most_earlier) {
      ++tally.cut;
    } else if (lossy_ || draining) {
      ++tally.broken;
    } else {
      complain(who, "of " + std::to_string(generation) + " ended: " + how);
    }
  }

  // Uses a WebSocket. If it `stays`, every configuration has its path, and this closes it after up to `time`; otherwise
  // only some configurations have the path, and the server closes it.
  Task<void> talk(std::uint64_t seed, Duration begin, Duration time, bool stays) {
    Random random(seed);
    co_await Sleep(reactor, begin);
    while (!draining && !co_await converse(random, time, stays)) co_await Sleep(reactor, random.up_to(1s));
  }
  // Returns false if no route has the path.
  Task<bool> converse(Random& random, Duration time, bool stays) {
    net::Stream stream(reactor);
    if (!co_await stream.connect(*core::Address::parse(address), reactor.now() + 200s)) {
      if (!lossy_ && !draining) complain("WebSocket", "connect");
      co_return true;
    }
    const std::string path = stays ? "/stays" : "/comes";
    const std::uint64_t served_before = served;
    if (!co_await write(stream,
                        "GET " + path +
                            " HTTP/1.1\r\nHost: sim\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")) {
      co_return true;
    }
    Buffer received;
    while (received.view().find("\r\n\r\n") == std::string_view::npos) {
      if (!co_await read(stream, received, path)) co_return true;
    }
    const bool opened = received.view().starts_with("HTTP/1.1 101");
    if (!opened) {
      bool may_be_absent = false;
      for (std::uint64_t i = served_before; i <= served; ++i) may_be_absent |= !has_second_socket(i);
      if (stays || !may_be_absent || !received.view().starts_with("HTTP/1.1 404"))
        complain(path, std::string(received.view()));
      co_return stays;
    }
    received.consume(received.view().find("\r\n\r\n") + 4);
    const Instant end = reactor.now() + random.up_to(time);
    while (!stays || reactor.now() < end) {
      // "hi", masked with zeros.
      if (!co_await write(stream, std::string("\x81\x82\0\0\0\0hi", 8))) co_return true;
      while (received.size() < 4) {
        if (!co_await read(stream, received, path)) co_return true;
      }
      if (received.view().starts_with(std::string_view("\x88\x02\x03\xe9", 4))) {  // 1001
        ++tally.going_away;
        bool was_absent = draining;
        for (std::uint64_t i = served_before; i <= served; ++i) was_absent |= !has_second_socket(i);
        if (!draining && (stays || !was_absent)) complain(path, "was told to go");
        co_return true;
      }
      if (!received.view().starts_with("\x81\x02hi")) {
        complain(path, "said something else");
        co_return true;
      }
      received.consume(4);
      ++tally.spoken;
      co_await Sleep(reactor, random.up_to(2s));
    }
    co_return true;
  }
  Task<bool> write(net::Stream& stream, std::string text) {
    iovec part{text.data(), text.size()};
    co_return (co_await stream.write({&part, 1}, 100s)).has_value();
  }
  Task<bool> read(net::Stream& stream, Buffer& into, const std::string& who) {
    const auto got = co_await stream.read(into, 4096, reactor.now() + 100s);
    if (got && *got != 0) co_return true;
    if (!excused(stream)) complain(who, got ? "ended" : got.error().text());
    co_return false;
  }

  std::string folder_;
  Logs logs_;
  core::BlockingPool threads_{1, 16};
  Back even_;
  Back odd_;
  http::Server even_server_;
  http::Server odd_server_;
  std::shared_ptr<const app::Plan> plan_;
  Random random_;
  const bool lossy_;
  std::uint64_t last_id_ = 0;
  int failures_ = 0;
};

core::Faults calm() { return {.short_read = 0.02, .short_write = 0.02, .would_block = 0.02, .split = 0.05}; }
core::Faults storm() {
  return {.short_read = 0.1,
          .short_write = 0.1,
          .would_block = 0.1,
          .split = 0.2,
          .stall = 0.02,
          .reset = 0.002,
          .vanish = 0.0005};
}

void print(const char* name, const World& world) {
  const Tally& tally = world.tally;
  std::printf(
      "%s: %llu configurations, %llu forgotten; %llu answers, %llu cut, %llu broken; %llu messages, %llu ended\n", name,
      static_cast<unsigned long long>(tally.switches), static_cast<unsigned long long>(tally.forgotten),
      static_cast<unsigned long long>(tally.answered), static_cast<unsigned long long>(tally.cut),
      static_cast<unsigned long long>(tally.broken), static_cast<unsigned long long>(tally.spoken),
      static_cast<unsigned long long>(tally.going_away));
}

constexpr int crowd = sanitized ? 80 : 200;

TEST(ReloadSoak, NothingIsLostInFairWeather) {
  World world(seed(), calm(), false);
  world.populate(crowd, 1min);
  world.run(1s);
  world.expect_nothing_left();
  print("fair", world);
  EXPECT_GT(world.tally.switches, 50u);
  EXPECT_GT(world.tally.answered, 100u);
  EXPECT_GT(world.tally.spoken, 100u);
  EXPECT_EQ(world.tally.going_away, static_cast<std::uint64_t>(crowd) / 8);
  EXPECT_EQ(world.tally.broken, 0u);
}

// So many reloads at once that answers are cut.
TEST(ReloadSoak, ManyReloadsCutTheOldestAnswersAlone) {
  World world(seed() + 1, calm(), false);
  world.populate(crowd / 2, 10s);
  for (int i = 0; i < 20; ++i) world.clients.spawn(world.wait_long(i * 100ms));
  world.run(60ms);
  world.expect_nothing_left();
  print("burst", world);
  EXPECT_GT(world.tally.cut, 0u);
  EXPECT_GT(world.tally.answered, world.tally.cut);
}

TEST(ReloadSoak, NothingIsMixedInAStorm) {
  World world(seed() + 2, storm(), true);
  world.populate(crowd, 1min);
  world.run(1s);
  world.expect_nothing_left();
  print("storm", world);
  EXPECT_GT(world.tally.broken, 0u);
}

TEST(ReloadSoak, TheSameSeedGivesTheSameHistory) {
  std::uint64_t histories[2];
  for (std::uint64_t& history : histories) {
    World world(seed() + 3, storm(), true);
    world.populate(40, 20s);
    world.run(1s);
    history = world.reactor.history();
  }
  EXPECT_EQ(histories[0], histories[1]);
}

TEST(ReloadSoak, ADrainEndsInTheMiddle) {
  for (std::uint64_t round = 0; round < (sanitized ? 3 : 10); ++round) {
    World world(seed() + 100 + round, calm(), false);
    world.populate(40, 10s);
    for (int i = 0; i < 5; ++i) {
      world.pass(1s);
      world.reload();
    }
    runtime::End end{.grace = Duration(10s), .cores_left = 1};
    runtime::Life life(world.core, *world.worker, end);
    world.draining = true;
    life.end();
    const Instant latest = world.reactor.now() + 20s;
    while (!world.core.stopping() && world.reactor.now() < latest) world.core.step(latest);
    EXPECT_TRUE(world.core.stopping());
    EXPECT_EQ(end.cores_left, 0u);
  }
}

TEST(ReloadSoak, DestroyingTheWorkerEndsWhatIsOpen) {
  for (std::uint64_t round = 0; round < (sanitized ? 3 : 10); ++round) {
    World world(seed() + 200 + round, storm(), true);
    world.populate(40, 10s);
    for (int i = 0; i < 5; ++i) {
      world.pass(1s);
      world.reload();
    }
    world.draining = true;
  }
}

}  // namespace
}  // namespace sluice::sim
