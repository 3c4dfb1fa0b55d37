// Two cores of a message service, each with clients on a simulated network of its own. Clients echo, wait for slow
// handlers, ask the service of the other core, and speak to all clients of both cores; others send garbage, stop in the
// middle of a frame, never read, or leave. Every answer comes once, in order, to the client that asked. Every broadcast
// reaches a client at most once and in the order of its speaker, and without faults every client that stays hears all
// of them. In the end nothing is left.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
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
using msg::Frame;

constexpr unsigned core_count = 2;
constexpr Duration step_time = 5ms;  // how far the clocks of the cores may differ

constexpr std::uint32_t echo_id = 1;
constexpr std::uint32_t slow_id = 2;
constexpr std::uint32_t ask_id = 3;   // answered by the service of the other core
constexpr std::uint32_t say_id = 4;   // to everyone: "speaker/number", padded
constexpr std::uint32_t quit_id = 5;  // the service closes the session after its answer

struct Tally {
  std::uint64_t asked = 0;
  std::uint64_t answered = 0;
  std::uint64_t heard = 0;
  std::uint64_t rude = 0;
  std::uint64_t gaps = 0;
  std::uint64_t ended = 0;  // sessions that ended before their client had all answers
};

// The service under test.
class Room final : public msg::Service {
 public:
  void configure(msg::Context& context) override { context_ = &context; }
  void wire(msg::Dispatcher& dispatcher) override {
    dispatcher.on(echo_id,
                  [](msg::Session& session, const Frame& frame) { session.reply(frame, echo_id, frame.body); });
    dispatcher.on(slow_id, [this](msg::Session& session, const Frame& frame) { return slow(session, frame); });
    dispatcher.on(ask_id, [this](msg::Session& session, const Frame& frame) { return ask(session, frame); });
    dispatcher.on(
        say_id, [this](msg::Session&, const Frame& frame) { context_->broadcast({.id = say_id, .body = frame.body}); });
    dispatcher.on(quit_id, [](msg::Session& session, const Frame& frame) {
      session.reply(frame, quit_id, frame.body);
      session.close();
    });
  }
  void opened(msg::Session& session) override { EXPECT_TRUE(open_.insert(session.id()).second); }
  void closed(msg::Session& session, msg::Ended) override { EXPECT_EQ(open_.erase(session.id()), 1u); }

  [[nodiscard]] std::size_t open() const { return open_.size(); }
  int running = 0;  // handlers that wait

 private:
  struct Running {
    int& count;
    explicit Running(int& running) : count(running) { ++count; }
    Running(const Running&) = delete;
    ~Running() { --count; }
  };
  Task<void> slow(msg::Session& session, const Frame& frame) {
    const Running here(running);
    co_await Sleep(context_->reactor(), Duration(1ms) * (1 + frame.body.size() % 300));
    session.reply(frame, slow_id, frame.body);
  }
  Task<void> ask(msg::Session& session, const Frame& frame) {
    const Running here(running);
    const unsigned other = (context_->core() + 1) % context_->cores();
    auto question = [text = std::string(msg::text_of(frame.body))](Room& there) { return there.answer(text); };
    const auto answer = co_await context_->call<Room>(other, context_->reactor().now() + 30s, std::move(question));
    if (!answer) {
      session.send_error(frame, msg::ErrorCode::overloaded, "the other core");
    } else {
      session.reply(frame, ask_id, *answer);
    }
  }
  Task<std::string> answer(std::string text) {
    if (text.size() % 3 == 0) co_await Sleep(context_->reactor(), 20ms);
    co_return text;
  }

  msg::Context* context_ = nullptr;
  std::set<std::uint64_t> open_;
};

class World;

// One core and its clients.
class Half {
 public:
  Half(World& world, core::Mesh& mesh, unsigned index, std::uint64_t seed, const core::Faults& faults,
       const msg::SessionOptions& options, core::BlockingPool& threads, std::vector<msg::Context*>& contexts)
      : world_(world),
        core_(mesh, index, std::make_unique<core::SimulatedReactor>(seed, faults)),
        sessions_(core_.reactor(), index, dispatcher_, &observer_, options),
        context_({core_.reactor(), core_.mailbox(), core_.mesh(), threads}, core_.tasks(), sessions_, contexts) {
    contexts[index] = &context_;
    auto room = std::make_unique<Room>();
    room_ = room.get();
    context_.add(std::move(room));
    room_->configure(context_);
    room_->wire(dispatcher_);
    server_ = std::make_unique<msg::Server>(sessions_, net::AcceptorOptions{});
    address_ = *server_->listen({.address = *core::Address::parse("127.0.0.1:0")});
  }
  ~Half() { clients_.cancel(); }

  void populate(unsigned clients, double rude_share, Random& random);
  void step(Instant until) {
    while (core_.reactor().now() < until && !testing::Test::HasFailure()) core_.step(until);
  }
  [[nodiscard]] core::SimulatedReactor& reactor() { return static_cast<core::SimulatedReactor&>(core_.reactor()); }
  [[nodiscard]] bool quiet() const { return clients_.empty(); }
  void drain() { server_->drain(1s); }
  void expect_nothing_left() {
    EXPECT_TRUE(sessions_.all().empty());
    EXPECT_EQ(sessions_.counters().open, 0u);
    EXPECT_EQ(room_->open(), 0u);
    EXPECT_EQ(room_->running, 0);
    EXPECT_EQ(reactor().open_handles(), 0u);
  }

 private:
  Task<void> converse(std::uint64_t seed, unsigned number);
  Task<void> misbehave(std::uint64_t seed, unsigned way);

  struct Observer final : msg::Sessions::Observer {
    explicit Observer(Half& owner) : half(owner) {}
    void opened(msg::Session& session) override { half.room_->opened(session); }
    void closed(msg::Session& session, msg::Ended why) override { half.room_->closed(session, why); }
    Half& half;
  };

  World& world_;
  core::Core core_;
  Observer observer_{*this};
  msg::Dispatcher dispatcher_;
  msg::Sessions sessions_;
  msg::Context context_;
  Room* room_ = nullptr;
  std::unique_ptr<msg::Server> server_;
  core::Address address_;
  core::TaskGroup clients_;
};

class World {
 public:
  World(std::uint64_t seed, const core::Faults& faults, bool lossy, const msg::SessionOptions& options = {})
      : lossy(lossy), random_(seed) {
    for (unsigned i = 0; i < core_count; ++i) {
      halves_.push_back(std::make_unique<Half>(*this, mesh_, i, random_.next(), faults, options, threads_, contexts_));
    }
    now_ = halves_.front()->reactor().now();
  }
  World(const World&) = delete;

  void run(unsigned clients, double rude_share, Duration at_most) {
    for (auto& half : halves_) half->populate(clients, rude_share, random_);
    advance(at_most, [this] {
      for (const auto& half : halves_) {
        if (!half->quiet()) return false;
      }
      return true;
    });
    for (const auto& half : halves_) EXPECT_TRUE(half->quiet()) << "clients wait for ever";
    for (const auto& half : halves_) half->drain();
    advance(200s, [] { return false; });
    for (const auto& half : halves_) half->expect_nothing_left();
  }
  template <class Done>
  void advance(Duration time, Done done) {
    const Instant end = now_ + time;
    while (now_ < end && !done() && !testing::Test::HasFailure()) {
      now_ += step_time;
      for (auto& half : halves_) half->step(now_);
    }
  }

  Tally tally;
  bool small_queues = false;
  const bool lossy;  // faults end connections
  unsigned next_client = 0;
  std::map<std::string, unsigned> said;  // by speaker: how many texts a client had answered by its own service

 private:
  Random random_;
  core::Mesh mesh_{core_count, 4};  // small enough to be full at times
  core::BlockingPool threads_{1, 1};
  std::vector<msg::Context*> contexts_{core_count, nullptr};
  std::vector<std::unique_ptr<Half>> halves_;
  Instant now_{};
};

void Half::populate(unsigned clients, double rude_share, Random& random) {
  for (unsigned i = 0; i < clients; ++i) {
    if (random.chance(rude_share)) {
      clients_.spawn(misbehave(random.next(), static_cast<unsigned>(random.below(6))));
    } else {
      clients_.spawn(converse(random.next(), ++world_.next_client));
    }
  }
}

std::string encoded(const Frame& frame) {
  Buffer bytes;
  msg::append_frame(bytes, frame);
  return std::string(bytes.view());
}

// A correct client: it sends frames, several at a time, and checks what it receives.
Task<void> Half::converse(std::uint64_t seed, unsigned number) {
  Random random(seed);
  co_await Sleep(core_.reactor(), random.up_to(2s));
  net::Stream stream(core_.reactor());
  if (!co_await stream.connect(address_, core_.reactor().now() + 60s)) co_return;
  struct Asked {
    std::uint32_t id;
    std::string body;
  };
  std::map<std::uint32_t, Asked> waiting;  // by correlation
  std::map<std::string, unsigned> last;    // the last number of each speaker
  std::uint32_t correlation = 0;
  std::uint32_t next_answer = 1;
  unsigned said = 0;
  bool quits = false;
  msg::FrameDecoder decoder(msg::largest_body);
  Buffer in;
  const std::uint64_t rounds = random.between(1, 8);
  for (std::uint64_t round = 0; round < rounds && !quits; ++round) {
    std::string bytes;
    for (std::uint64_t i = random.between(1, 6); i > 0; --i) {
      if (random.chance(0.25)) {
        const std::string text = fmt::format("{}/{}/", number, ++said) + std::string(random.below(6000), '.');
        bytes += encoded({.id = say_id, .body = msg::bytes_of(text)});
        continue;
      }
      quits = random.chance(0.02);
      const std::uint32_t id = quits ? quit_id : static_cast<std::uint32_t>(random.between(echo_id, ask_id));
      std::string body = pattern(random.next(), random.below(random.chance(0.1) ? 100'000 : 300));
      bytes +=
          encoded({.id = id, .flags = msg::correlated_flag, .correlation = ++correlation, .body = msg::bytes_of(body)});
      waiting[correlation] = {id, std::move(body)};
      ++world_.tally.asked;
      if (quits) break;
    }
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::size_t size = random.chance(0.5) ? random.between(1, rest.size()) : rest.size();
      iovec part{const_cast<char*>(rest.data()), size};
      if (!co_await stream.write({&part, 1}, 600s)) co_return;
      rest.remove_prefix(size);
      if (!rest.empty() && random.chance(0.3)) co_await Sleep(core_.reactor(), random.up_to(500ms));
    }
    while (!waiting.empty()) {
      const auto next = decoder.next(in);
      EXPECT_TRUE(next) << "the service sent " << decoder.refusal().text();
      if (!next) co_return;
      if (!*next) {
        const auto got = co_await stream.read(in, 16 * 1024, core_.reactor().now() + 300s);
        if (!got || *got == 0) {
          ++world_.tally.ended;
          EXPECT_TRUE(world_.lossy) << "client " << number << " lost its session";
          co_return;
        }
        continue;
      }
      const Frame& frame = **next;
      const std::string_view body = msg::text_of(frame.body);
      if (frame.id == say_id) {
        const std::string speaker(body.substr(0, body.find('/')));
        const auto at = static_cast<unsigned>(std::atoi(body.data() + speaker.size() + 1));
        EXPECT_GT(at, last[speaker]) << "from " << speaker << " to " << number;
        if (last[speaker] != 0 && !world_.lossy) EXPECT_EQ(at, last[speaker] + 1) << "from " << speaker;
        last[speaker] = at;
        ++world_.tally.heard;
        continue;
      }
      if (frame.id == msg::ping_id) continue;
      if (frame.id == msg::gap_id) {  // answers may be among the dropped frames
        EXPECT_TRUE(world_.small_queues);
        ++world_.tally.gaps;
        co_return;
      }
      EXPECT_TRUE(frame.is_correlated());
      EXPECT_EQ(frame.correlation, next_answer++);
      const auto found = waiting.find(frame.correlation);
      EXPECT_NE(found, waiting.end());
      if (found == waiting.end()) co_return;
      EXPECT_EQ(frame.id, found->second.id);
      EXPECT_FALSE(frame.is_error());
      EXPECT_EQ(body, found->second.body);
      waiting.erase(found);
      ++world_.tally.answered;
    }
    // A client hears itself, in order with its answers.
    if (!world_.lossy && correlation == next_answer - 1 && last.contains(std::to_string(number))) {
      EXPECT_LE(last[std::to_string(number)], said);
    }
    if (random.chance(0.3)) co_await Sleep(core_.reactor(), random.up_to(5s));
  }
}

Task<void> Half::misbehave(std::uint64_t seed, unsigned way) {
  Random random(seed);
  ++world_.tally.rude;
  co_await Sleep(core_.reactor(), random.up_to(2s));
  net::Stream stream(core_.reactor());
  if (!co_await stream.connect(address_, core_.reactor().now() + 60s)) co_return;
  std::string bytes;
  switch (way) {
    case 0:  // garbage
      bytes = pattern(random.next(), random.between(1, 3000));
      break;
    case 1:  // part of a frame, then silence
      bytes = encoded({.id = echo_id, .body = msg::bytes_of(std::string(500, 'x'))}).substr(0, random.between(1, 400));
      break;
    case 2:  // a size over the limit
      bytes = encoded({.id = echo_id}) + std::string("\1\0\0\0\0\1\177\0\0\0\0\0", 12);
      break;
    case 3:  // asks much and reads nothing
      for (int i = 0; i < 60; ++i) bytes += encoded({.id = echo_id, .body = msg::bytes_of(std::string(50'000, 'x'))});
      break;
    case 4:  // leaves while a handler waits
      bytes = encoded({.id = slow_id, .body = msg::bytes_of(std::string(250, 'x'))}) + encoded({.id = ask_id});
      break;
    default:  // silence
      break;
  }
  iovec part{bytes.data(), bytes.size()};
  (void)co_await stream.write({&part, 1}, 20s);
  if (way == 4) {
    co_await Sleep(core_.reactor(), random.up_to(200ms));
    if (random.chance(0.5)) core_.reactor().reset_on_close(stream.handle());
    co_return;
  }
  if (way == 3) co_return co_await Sleep(core_.reactor(), 120s);
  Buffer in;
  const Instant bound = core_.reactor().now() + 150s;
  for (;;) {
    in.clear();
    const auto got = co_await stream.read(in, 16 * 1024, bound);
    if (got && *got != 0) continue;
    EXPECT_TRUE(world_.lossy || core_.reactor().now() < bound) << "the service did not end a client of kind " << way;
    co_return;
  }
}

core::Faults calm() {
  return {.short_read = 0.1, .short_write = 0.1, .would_block = 0.1, .split = 0.2, .stall = 0.003};
}
core::Faults storm() {
  core::Faults faults = calm();
  faults.short_read = faults.short_write = faults.would_block = 0.3;
  faults.stall = 0.02;
  faults.reset = 0.005;
  faults.vanish = 0.002;
  faults.accept_abort = 0.02;
  faults.buffer = 20'000;
  return faults;
}

// How many worlds each test runs; SLUICE_ROUNDS sets another number.
std::uint64_t rounds() {
  const char* const given = std::getenv("SLUICE_ROUNDS");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : sanitized ? 4 : 20;
}

void print(const char* name, const Tally& tally) {
  fmt::print("{}: {} asked, {} answered, {} heard, {} rude, {} gaps, {} ended\n", name, tally.asked, tally.answered,
             tally.heard, tally.rude, tally.gaps, tally.ended);
}

TEST(MsgSoak, Calm) {
  Tally last;
  for (std::uint64_t round = 0; round < rounds() && !HasFailure(); ++round) {
    World world(seed() + round, calm(), false);
    world.run(12, 0.2, 1000s);
    EXPECT_EQ(world.tally.asked, world.tally.answered) << "round " << round;
    last = world.tally;
    EXPECT_GT(last.answered, 0u);
    if (HasFailure()) ADD_FAILURE() << "seed " << seed() + round;
  }
  print("calm", last);
}

TEST(MsgSoak, Storm) {
  Tally last;
  for (std::uint64_t round = 0; round < rounds() && !HasFailure(); ++round) {
    World world(seed() + 1'000'000 + round, storm(), true);
    world.run(20, 0.3, 2000s);
    last = world.tally;
    if (HasFailure()) ADD_FAILURE() << "seed " << seed() + round;
  }
  print("storm", last);
}

TEST(MsgSoak, SmallQueues) {
  Tally last;
  for (std::uint64_t round = 0; round < rounds() && !HasFailure(); ++round) {
    World world(seed() + 2'000'000 + round, storm(), true,
                {.most_queued = 20'000,
                 .slow_receiver = round % 2 == 0 ? msg::SlowReceiver::close : msg::SlowReceiver::mark_gaps});
    world.small_queues = true;
    world.run(20, 0.3, 2000s);
    last = world.tally;
    if (HasFailure()) ADD_FAILURE() << "seed " << seed() + round;
  }
  print("small queues", last);
}

}  // namespace
}  // namespace sluice::sim
