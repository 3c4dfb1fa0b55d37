// The groups of a message service on three cores, whose rings are nearly always full. Clients join and leave groups,
// speak to them, and leave the service in several ways; in some worlds the network fails, clients read too slowly, and
// cores drain or end. Each member hears each broadcast at most once, and the broadcasts of one speaker in order. A
// client hears a group only between the answers to its join and its leave. Members that stay hear all. In the end no
// group has members.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
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

#include "core/blocking_pool.h"
#include "core/core.h"
#include "core/mesh.h"
#include "core/simulated_reactor.h"
#include "msg/context.h"
#include "msg/server.h"
#include "msg/service.h"
#include "net/stream.h"
#include "simulation.h"

namespace sluice::sim {
namespace {

using core::Task;
using msg::Ended;
using msg::Frame;

constexpr unsigned core_count = 3;
constexpr std::array<std::string_view, 5> names{"a", "room 7", "", "a group whose name is long enough for the heap",
                                                "b"};
constexpr std::uint64_t flood = 1100;  // broadcasts at once, more than may wait for a core

// Messages. Bodies are numbers with spaces between them.
constexpr std::uint32_t hello_id = 1;          // client
constexpr std::uint32_t join_id = 2;           // group; answered when the session is a member
constexpr std::uint32_t leave_id = 3;          // group; answered when the session is no member
constexpr std::uint32_t late_id = 4;           // group, milliseconds: joins later, even if the session has ended
constexpr std::uint32_t slow_id = 5;           // group, milliseconds: a handler that waits, and joins then
constexpr std::uint32_t speak_id = 6;          // group, times, bytes
constexpr std::uint32_t speech_id = 7;         // broadcast: the number of the speech, and text
constexpr std::uint32_t quit_id = 8;           // the service closes the session
constexpr std::uint32_t relay_id = 9;          // like speak_id, but the service of the next core speaks
constexpr unsigned first_service = 1'000'000;  // the speakers' numbers of the services

struct Tally {
  std::uint64_t speeches = 0, heard = 0, required = 0, left_out = 0, kept = 0, gaps = 0, slow = 0, lost = 0;
  std::uint64_t came_again = 0, ended_cores = 0, too_late = 0;
};

// The world's knowledge of a client. `required`, `heard`: speeches.
struct Client {
  unsigned number;
  unsigned core;
  msg::Session* session = nullptr;       // from its first frame until closed()
  std::map<unsigned, unsigned> stays{};  // the groups that it is in: a number for each time that it joins one
  std::optional<Ended> why{};
  std::set<std::size_t> required{};
  std::set<std::size_t> heard{};
  std::uint64_t missed = 0;  // as gap frames say
  bool has_left = false;     // without reading the rest
  bool has_read_all = false;

  [[nodiscard]] bool stays_in(unsigned group) const { return session != nullptr && stays.contains(group); }
};

struct Speech {
  unsigned speaker;
  unsigned core;
  unsigned group;
  std::string body{};
  std::set<const Client*> members{};  // of the speaker's core, when it spoke
  struct Absent {
    Client* client;
    unsigned stay;
  };
  std::array<std::vector<Absent>, core_count> awaited{};  // members of cores that may not have passed it on yet
};

struct State {
  Random random;
  Tally& tally;
  const bool is_lossy = random.chance(0.3);  // the network fails
  const bool is_slow = random.chance(0.3);   // queues are short, and clients read slowly
  const bool has_markers = random.chance(0.7);
  const bool has_farewells = random.chance(0.3);
  bool may_flood = random.chance(0.08);
  std::deque<Client> clients{};
  std::deque<Speech> speeches{};
  unsigned last_stay = 0;
  unsigned active = 0;  // clients that still act

  // This core has passed the speech on to its members: those that have been there since before it must hear it.
  void passed(std::size_t number, unsigned core) {
    for (const auto& [client, stay] : std::exchange(speeches[number].awaited[core], {})) {
      const auto at = client->stays.find(speeches[number].group);
      if (at == client->stays.end() || at->second != stay || !client->session->open()) continue;
      client->required.insert(number);
    }
  }
};

class Room final : public msg::Service {
 public:
  Room(State& world, msg::Context& context) : world_(world), context_(context) {}

  void wire(msg::Dispatcher& dispatcher) override {
    dispatcher.on(hello_id, [this](msg::Session& session, const Frame& frame) {
      Client& client = world_.clients[numbers(frame)[0]];
      client.session = &session;
      session.data = &client;
    });
    dispatcher.on(join_id, [this](msg::Session& session, const Frame& frame) { join(session, numbers(frame)[0]); });
    dispatcher.on(leave_id, [this](msg::Session& session, const Frame& frame) {
      context_.leave(session, names[numbers(frame)[0]]);
      client_of(session).stays.erase(numbers(frame)[0]);
      session.send(frame);
    });
    dispatcher.on(late_id, [this](msg::Session& session, const Frame& frame) {
      context_.spawn(join_later(msg::SessionRef(session), numbers(frame)));
    });
    dispatcher.on(slow_id, [this](msg::Session& session, const Frame& frame) {
      return join_later(msg::SessionRef(session), numbers(frame));
    });
    dispatcher.on(speak_id, [this](msg::Session& session, const Frame& frame) {
      speak_often(client_of(session).number, numbers(frame));
    });
    // A function from another core runs while messages still wait there for room that is free already.
    dispatcher.on(relay_id, [this](msg::Session&, const Frame& frame) {
      const unsigned target = (context_.core() + 1) % core_count;
      context_.on_every_core<Room>([target, given = numbers(frame)](Room& there) {
        if (there.context_.core() == target) there.speak_often(first_service + target, given);
      });
    });
    dispatcher.on(quit_id, [](msg::Session& session, const Frame&) { session.close(); });
  }
  void closed(msg::Session& session, Ended why) override {
    if (!session.data.has_value()) return;
    Client& client = client_of(session);
    if (world_.has_farewells && !client.stays.empty()) speak(client.number, client.stays.begin()->first, 10);
    client.stays.clear();
    client.session = nullptr;
    client.why = why;
  }

 private:
  static std::array<unsigned, 3> numbers(const Frame& frame) {
    std::array<unsigned, 3> all{};
    std::sscanf(std::string(msg::text_of(frame.body)).c_str(), "%u %u %u", &all[0], &all[1], &all[2]);
    return all;
  }
  static Client& client_of(const msg::Session& session) { return *std::any_cast<Client*>(session.data); }

  void join(msg::Session& session, unsigned group) {
    const bool has_joined = context_.join(session, names[group]);
    EXPECT_EQ(has_joined, session.state() != msg::Session::State::ended);
    if (!has_joined) {
      ++world_.tally.too_late;
      return;
    }
    client_of(session).stays.try_emplace(group, ++world_.last_stay);
    session.send(join_id, std::to_string(group));
  }
  Task<void> join_later(msg::SessionRef session, std::array<unsigned, 3> given) {
    co_await Sleep(context_.reactor(), Duration(1ms) * given[1]);
    join(*session, given[0]);
  }
  void speak_often(unsigned speaker, std::array<unsigned, 3> given) {
    const auto [group, times, bytes] = given;
    for (unsigned i = 0; i < times; ++i) speak(speaker, group, bytes);
  }
  void speak(unsigned speaker, unsigned group, std::size_t bytes) {
    const std::size_t number = world_.speeches.size();
    Speech& speech = world_.speeches.emplace_back(Speech{.speaker = speaker, .core = context_.core(), .group = group});
    speech.body = std::to_string(number) + ' ' + pattern(number, bytes);
    for (Client& client : world_.clients) {
      if (!client.stays_in(group)) continue;
      if (client.core == speech.core) speech.members.insert(&client);
      if (!client.session->open()) continue;
      if (client.core == speech.core) {
        client.required.insert(number);
      } else {
        speech.awaited[client.core].push_back({&client, client.stays.at(group)});
      }
    }
    ++world_.tally.speeches;
    if (!context_.broadcast(names[group], Frame{.id = speech_id, .body = msg::bytes_of(speech.body)})) {
      ++world_.tally.left_out;
      for (auto& absent : speech.awaited) absent.clear();
    } else if (world_.has_markers) {
      // A function that is sent after the broadcast runs after it.
      context_.on_every_core<Room>([number](Room& there) { there.world_.passed(number, there.context_.core()); });
    }
  }

  State& world_;
  msg::Context& context_;
};

// One core and its clients.
class Site {
 public:
  Site(State& world, core::Mesh& mesh, unsigned index, const core::Faults& faults, const msg::SessionOptions& options,
       core::BlockingPool& threads, std::vector<msg::Context*>& contexts)
      : world_(world),
        core_(mesh, index, std::make_unique<core::SimulatedReactor>(world.random.next(), faults)),
        sessions_(core_.reactor(), index, dispatcher_, &observer_, options),
        context_({core_.reactor(), core_.mailbox(), core_.mesh(), threads}, core_.tasks(), sessions_, contexts),
        server_(sessions_, {}) {
    contexts[index] = &context_;
    context_.add(std::make_unique<Room>(world, context_));
    room().wire(dispatcher_);
    address_ = *server_.listen({.address = *core::Address::parse("127.0.0.1:0")});
  }
  Site(const Site&) = delete;
  ~Site() { clients_.cancel(); }

  void add_client() {
    const auto number = static_cast<unsigned>(world_.clients.size());
    Client& client = world_.clients.emplace_back(Client{.number = number, .core = core_.index()});
    ++world_.active;
    clients_.spawn(live(client, Random(world_.random.next())));
  }
  void step(Instant until) {
    core::MeshPort& port = core_.mesh();
    do {
      core_.mailbox().deliver();
      if (stage_ != Stage::ended) port.drain();
      (void)port.prepare_to_sleep();  // a core that flushes never sleeps
      reactor().turn(until);
      port.awake();
      if (stage_ == Stage::drains && server_.drained()) begin_to_end();
      if (stage_ == Stage::refuses && port.quiet()) {
        sessions_.cut();
        core_.tasks().cancel();
        port.cancel_served();
        stage_ = Stage::flushes;
      }
      if (stage_ == Stage::flushes && port.flushed()) {
        port.end();
        stage_ = Stage::ended;
      }
    } while (reactor().now() < until && !testing::Test::HasFailure());
    world_.tally.kept += keeps() ? 1 : 0;
    check_members();
  }
  // As in a restart: the server drains, and then the core ends.
  void drain(bool ends) {
    server_.drain(100ms);
    if (ends && stage_ == Stage::runs) stage_ = Stage::drains;
  }
  // The core ends while it has sessions.
  void begin_to_end() {
    if (stage_ >= Stage::refuses) return;
    server_.stop_accepting();
    was_cut_ = !sessions_.all().empty();
    core_.mesh().refuse_new();
    stage_ = Stage::refuses;
  }
  [[nodiscard]] bool was_cut() const { return was_cut_; }
  [[nodiscard]] bool is_quiet() const {
    const bool is_between = stage_ != Stage::runs && stage_ != Stage::ended;
    return clients_.empty() && sessions_.all().empty() && !is_between;
  }
  // Messages wait for room.
  [[nodiscard]] bool keeps() {
    core::MeshPort& port = core_.mesh();
    return port.kept(0) + port.kept(1) + port.kept(2) != 0;
  }
  [[nodiscard]] core::SimulatedReactor& reactor() { return static_cast<core::SimulatedReactor&>(core_.reactor()); }
  void expect_nothing_left() {
    EXPECT_TRUE(sessions_.all().empty());
    EXPECT_EQ(reactor().open_handles(), 0U);
    check_members();
    for (const std::string_view name : names) EXPECT_EQ(context_.groups().size(name), 0U) << name;
  }

 private:
  enum class Stage : std::uint8_t { runs, drains, refuses, flushes, ended };
  struct Observer final : msg::Sessions::Observer {
    explicit Observer(Site& owner) : site(owner) {}
    void opened(msg::Session&) override {}
    void closed(msg::Session& session, Ended why) override {
      site.room().closed(session, why);
      site.context_.leave_all(session);
    }
    Site& site;
  };
  // A client's view of its own session.
  struct Ear {
    msg::FrameDecoder decoder{msg::largest_body};
    Buffer in{};
    std::array<std::optional<bool>, names.size()> is_in{false, false, false, false, false};  // null: after a gap
    std::map<unsigned, std::size_t> last{};                                                  // speech of each speaker
  };

  Room& room() { return *context_.find<Room>(); }
  void check_members() {
    context_.groups().validate();
    for (unsigned group = 0; group < names.size(); ++group) {
      const auto is_member = [&](const Client& one) { return one.core == core_.index() && one.stays_in(group); };
      EXPECT_EQ(context_.groups().size(names[group]), std::ranges::count_if(world_.clients, is_member));
    }
  }
  void hear(Client& client, Ear& ear, const Frame& frame) {
    if (frame.id == msg::ping_id) return;
    EXPECT_FALSE(frame.is_error());
    if (frame.id == msg::gap_id) {
      ++world_.tally.gaps;
      std::uint64_t missed = 0;
      for (const std::byte byte : frame.body) missed = missed << 8 | std::to_integer<unsigned>(byte);
      client.missed += missed;
      ear.is_in = {};
      return;
    }
    const std::size_t number = std::stoul(std::string(msg::text_of(frame.body)));
    if (frame.id != speech_id) {
      ear.is_in.at(number) = frame.id == join_id;
      return;
    }
    const Speech& speech = world_.speeches.at(number);
    ++world_.tally.heard;
    EXPECT_EQ(msg::text_of(frame.body), speech.body);
    EXPECT_TRUE(client.heard.insert(number).second) << "twice";
    EXPECT_TRUE(ear.is_in[speech.group].value_or(true)) << "of a group that it is not in";
    if (speech.core == client.core) EXPECT_TRUE(speech.members.contains(&client)) << "was no member";
    const auto [at, is_first] = ear.last.try_emplace(speech.speaker, number);
    if (!is_first) EXPECT_LT(std::exchange(at->second, number), number) << "out of order";
  }
  // Hears what arrives until then. Returns false if the session has ended.
  Task<bool> listen(net::Stream& stream, Client& client, Ear& ear, Instant until, Random& random) {
    while (!testing::Test::HasFailure()) {
      const bool is_slow = world_.is_slow && client.number % 2 == 0;
      const auto got = co_await stream.read(ear.in, is_slow ? 500 : 16 * 1024, until);
      if (!got && got.error().code == Errc::timed_out) co_return true;
      if (got && *got == 0) client.has_read_all = ear.in.empty();
      if (!got || *got == 0) co_return false;
      for (;;) {
        const auto next = ear.decoder.next(ear.in);
        EXPECT_TRUE(next) << ear.decoder.refusal().text();
        if (!next || !*next) break;
        hear(client, ear, **next);
      }
      if (is_slow) co_await Sleep(core_.reactor(), random.up_to(20ms));
    }
    co_return false;
  }
  std::string frames(Random& random) {
    std::string bytes;
    for (std::uint64_t i = random.between(1, 4); i > 0; --i) {
      const std::uint64_t group = random.below(names.size());
      constexpr std::array ids{join_id, join_id, join_id,  leave_id, leave_id,
                               late_id, slow_id, speak_id, speak_id, relay_id};
      const std::uint32_t id = ids.at(random.below(ids.size()));
      const std::uint64_t size = random.chance(0.2) ? random.between(250, 6000) : random.below(50);
      const bool floods = id == speak_id && random.chance(0.1) && std::exchange(world_.may_flood, false);
      const std::uint64_t times = id < speak_id ? random.below(80) : floods ? flood : random.between(1, 5);
      bytes += encoded(id, fmt::format("{} {} {}", group, times, floods ? 5 : size));
    }
    return bytes;
  }
  static std::string encoded(std::uint32_t id, std::string_view body) {
    Buffer bytes;
    msg::append_frame(bytes, {.id = id, .body = msg::bytes_of(body)});
    return std::string(bytes.view());
  }
  static Task<bool> write(net::Stream& stream, std::string bytes) {
    iovec part{bytes.data(), bytes.size()};
    co_return (co_await stream.write({&part, 1}, 60s)).has_value();
  }
  // Speaks and listens. Returns false if the session has ended.
  Task<bool> act(net::Stream& stream, Client& client, Ear& ear, Random& random) {
    co_await Sleep(core_.reactor(), random.up_to(200ms));
    if (!co_await stream.connect(address_, core_.reactor().now() + 60s)) co_return false;
    std::string bytes = encoded(hello_id, std::to_string(client.number));
    for (std::uint64_t round = random.between(2, 8); round > 0; --round) {
      if (!co_await write(stream, std::exchange(bytes, {}) + frames(random))) co_return false;
      const Instant until = core_.reactor().now() + random.up_to(60ms);
      if (!co_await listen(stream, client, ear, until, random)) co_return false;
    }
    co_return true;
  }
  Task<void> live(Client& client, Random random) {
    net::Stream stream(core_.reactor());
    Ear ear;
    const bool is_there = co_await act(stream, client, ear, random);
    --world_.active;
    if (!is_there) co_return;
    const std::uint64_t way = random.below(6);
    if (way == 0) {
      client.has_left = true;
      if (random.chance(0.5)) reactor().reset_on_close(stream.handle());
      co_return;
    }
    if (way == 1 && !co_await stream.end(60s)) co_return;
    if (way == 2 && !co_await write(stream, encoded(quit_id, ""))) co_return;
    (void)co_await listen(stream, client, ear, core_.reactor().now() + 150s, random);
  }

  State& world_;
  core::Core core_;
  Observer observer_{*this};
  msg::Dispatcher dispatcher_;
  msg::Sessions sessions_;
  msg::Context context_;
  msg::Server server_;
  core::Address address_;
  core::TaskGroup clients_;
  Stage stage_ = Stage::runs;
  bool was_cut_ = false;
};

class World {
 public:
  World(std::uint64_t seed, core::BlockingPool& threads, Tally& tally) : state_{Random(seed), tally} {
    core::Faults faults{.short_read = 0.1, .short_write = 0.1, .would_block = 0.1, .split = 0.2, .stall = 0.003};
    if (state_.is_lossy) faults.reset = faults.vanish = 0.004;
    if (state_.is_lossy) faults.accept_abort = 0.02;
    msg::SessionOptions options;
    if (state_.is_slow) {
      faults.buffer = 3000;
      options.most_queued = random_.between(2000, 12'000);
      if (random_.chance(0.6)) options.slow_receiver = msg::SlowReceiver::mark_gaps;
    }
    for (unsigned i = 0; i < core_count; ++i) {
      sites_[i] = std::make_unique<Site>(state_, mesh_, i, faults, options, threads, contexts_);
    }
    now_ = sites_[0]->reactor().now();
  }

  void run() {
    for (std::uint64_t i = random_.between(4, 15); i > 0; --i) any_site().add_client();
    const double late = random_.chance(0.5) ? 0.02 : 0.3;  // how often the last core takes a step
    const bool ends = random_.chance(0.3);
    for (int i = 0; state_.active > 0 && !testing::Test::HasFailure(); ++i) {
      now_ += random_.up_to(4ms);
      const auto drawn = static_cast<unsigned>(random_.below(core_count));
      if (drawn + 1 < core_count || random_.chance(late) || i > 1500) sites_[drawn]->step(now_);
      if (random_.chance(0.01) && i < 300) {
        any_site().add_client();
        ++state_.tally.came_again;
      }
      if (ends && random_.chance(0.005)) end_one();
      if (i > 40'000) ADD_FAILURE() << state_.active << " clients never finish";
    }
    const auto keeps = [](const auto& site) { return site->keeps(); };
    for (int calm = 0; calm < 4 && !testing::Test::HasFailure();) {
      advance(2ms);
      calm = std::ranges::none_of(sites_, keeps) ? calm + 1 : 0;
    }
    for (std::size_t number = 0; number < state_.speeches.size(); ++number) {
      for (unsigned core = 0; core < core_count; ++core) state_.passed(number, core);
    }
    for (const auto& site : sites_) site->drain(false);
    const auto is_quiet = [](const auto& site) { return site->is_quiet(); };
    for (int i = 0; i < 1000 && !std::ranges::all_of(sites_, is_quiet); ++i) advance(200ms);
    advance(1s);  // joins that are late
    for (const auto& site : sites_) site->expect_nothing_left();
    for (const Client& client : state_.clients) judge(client);
  }

 private:
  Site& any_site() { return *sites_[random_.below(core_count)]; }
  void advance(Duration time) {
    now_ += time;
    for (const auto& site : sites_) site->step(now_);
  }
  void end_one() {
    Site& site = any_site();
    ++state_.tally.ended_cores;
    if (random_.chance(0.4)) return site.begin_to_end();
    site.drain(random_.chance(0.7));
  }
  // A client that has read everything up to the end of its session has heard all that it had to hear, apart from the
  // frames that gap frames count.
  void judge(const Client& client) {
    if (!client.why) return;
    if (client.why == Ended::slow) ++state_.tally.slow;
    if (client.why == Ended::lost) ++state_.tally.lost;
    const bool is_whole = client.why == Ended::by_server || client.why == Ended::by_peer;
    if (client.has_left || sites_[client.core]->was_cut()) return;
    if (!is_whole || !client.has_read_all) {
      EXPECT_TRUE(state_.is_lossy || state_.is_slow) << "client " << client.number << " lost its session";
      return;
    }
    std::vector<std::size_t> missing;
    std::ranges::set_difference(client.required, client.heard, std::back_inserter(missing));
    EXPECT_LE(missing.size(), client.missed)
        << "client " << client.number << " did not hear speech " << missing.front();
    state_.tally.required += client.required.size() - missing.size();
  }

  State state_;
  Random& random_ = state_.random;
  core::Mesh mesh_{core_count, std::size_t{2} << random_.below(3)};
  std::vector<msg::Context*> contexts_{core_count, nullptr};
  std::array<std::unique_ptr<Site>, core_count> sites_;
  Instant now_{};
};

// SLUICE_WORLDS sets how many worlds there are. SLUICE_SEED and SLUICE_WORLDS=1 repeat a single one.
TEST(GroupsSoak, MembersHearEachSpeechOnceAndInOrder) {
  const char* const given = std::getenv("SLUICE_WORLDS");
  const int count = given != nullptr ? std::atoi(given) : sanitized ? 200 : 1000;
  core::BlockingPool threads(1, 1);
  Tally all;
  for (int i = 0; i < count && !HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("SLUICE_SEED={}", seed() + static_cast<std::uint64_t>(i)));
    World(seed() + static_cast<std::uint64_t>(i), threads, all).run();
  }
  fmt::print(
      "{} worlds: {} speeches, heard {} times, {} of them required; {} left out; {} steps with messages that wait "
      "for room; {} gaps; sessions that ended: {} slow, {} lost; {} clients came later; {} cores drained or ended; "
      "{} joins after the end\n",
      count, all.speeches, all.heard, all.required, all.left_out, all.kept, all.gaps, all.slow, all.lost,
      all.came_again, all.ended_cores, all.too_late);
  if (count < 200) return;
  for (const std::uint64_t each :
       {all.required, all.kept, all.gaps, all.slow, all.lost, all.came_again, all.ended_cores, all.too_late}) {
    EXPECT_GT(each, 0U);
  }
}

}  // namespace
}  // namespace sluice::sim
