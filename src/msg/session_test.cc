#include "msg/session.h"

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"
#include "msg/flatbuffer.h"
#include "msg/server.h"
#include "msg/sessions.h"
#include "msg/test_messages.fbs.h"
#include "net/stream.h"

namespace sluice::msg {
namespace {

using core::Task;

constexpr std::uint32_t echo_id = 100;
constexpr std::uint32_t login_id = 101;
constexpr std::uint32_t slow_id = 102;
constexpr std::uint32_t close_id = 103;
constexpr std::uint32_t throw_id = 104;
constexpr std::uint32_t large_login_id = 105;

// A received frame that owns its body.
struct Received {
  std::uint32_t id = 0;
  bool is_error = false;
  std::optional<std::uint32_t> correlation = {};
  std::string body;
};

class Client {
 public:
  explicit Client(core::Reactor& reactor) : stream_(reactor) {}

  void connect(const core::Address& to) {
    tasks_.spawn([](Client& self, core::Address address) -> Task<void> {
      const auto connected = co_await self.stream_.connect(address, never);
      EXPECT_TRUE(connected);
      self.tasks_.spawn(self.read());
    }(*this, to));
  }
  void send(std::string bytes) {
    tasks_.spawn([](Client& self, std::string text) -> Task<void> {
      iovec part{text.data(), text.size()};
      (void)co_await self.stream_.write({&part, 1}, 1h);
    }(*this, std::move(bytes)));
  }
  void send(const Frame& frame) { send(encoded(frame)); }
  static std::string encoded(const Frame& frame) {
    Buffer bytes;
    append_frame(bytes, frame);
    return std::string(bytes.view());
  }
  void leave() {
    tasks_.cancel();
    stream_.close();
  }
  void reset(core::Reactor& reactor) {
    reactor.reset_on_close(stream_.handle());
    leave();
  }
  // Reads nothing from now on.
  void stall() { tasks_.cancel(); }
  void resume() { tasks_.spawn(read()); }

  std::vector<Received> received;
  bool ended = false;

 private:
  Task<void> read() {
    FrameDecoder decoder(largest_body);
    for (;;) {
      const auto frame = decoder.next(in_);
      EXPECT_TRUE(frame);
      if (!frame) co_return;
      if (*frame) {
        Received one{
            .id = (*frame)->id, .is_error = (*frame)->is_error(), .body = std::string(text_of((*frame)->body))};
        if ((*frame)->is_correlated()) one.correlation = (*frame)->correlation;
        received.push_back(std::move(one));
        continue;
      }
      const auto got = co_await stream_.read(in_, 64 * 1024, never);
      if (!got || *got == 0) {
        ended = true;
        stream_.close();
        co_return;
      }
    }
  }

  net::Stream stream_;
  Buffer in_;
  core::TaskGroup tasks_;
};

class SessionTest : public testing::Test, public Sessions::Observer {
 protected:
  void start(const SessionOptions& options = {}) {
    sessions_ = std::make_unique<Sessions>(reactor_, 0, dispatcher_, this, options);
    dispatcher_.on(echo_id,
                   [](Session& session, const Frame& frame) { return session.reply(frame, echo_id, frame.body); });
    const auto log_in = [](Session& session, const test::LoginRequest& login, const Frame& frame) {
      session.reply(frame, login_id, login.user()->string_view());
    };
    dispatcher_.on<test::LoginRequest>(login_id, log_in);
    dispatcher_.on<test::LoginRequest>(large_login_id, log_in, {.most_body = 100'000});
    dispatcher_.on(slow_id, [this](Session& session, const Frame& frame) { return slow(session, frame); });
    dispatcher_.on(close_id, [](Session& session, const Frame& frame) {
      session.reply(frame, close_id, "bye");
      session.close();
    });
    dispatcher_.on(throw_id, [](Session&, const Frame&) { throw std::runtime_error("a handler's fault"); });
    server_ = std::make_unique<Server>(*sessions_, net::AcceptorOptions{});
    address_ = *server_->listen({.address = *core::Address::parse("127.0.0.1:0")});
  }
  Client& connect() {
    clients_.push_back(std::make_unique<Client>(reactor_));
    clients_.back()->connect(address_);
    pass(10ms);
    return *clients_.back();
  }
  Task<void> slow(Session& session, const Frame& frame) {
    struct Running {
      int& count;
      explicit Running(int& running) : count(running) { ++count; }
      Running(const Running&) = delete;
      ~Running() { --count; }
    } running(slow_running);
    co_await core::Sleep(reactor_, reactor_.now() + 2s);
    session.reply(frame, slow_id, frame.body);
  }
  void pass(Duration time) {
    const Instant until = reactor_.now() + time;
    while (reactor_.now() < until && !reactor_.deadlocked()) reactor_.turn(until);
  }
  void opened(Session& session) override { sessions_opened.push_back(session.id()); }
  void closed(Session& session, Ended why) override {
    EXPECT_FALSE(session.send(echo_id, "nobody reads this"));
    why_ended.push_back(why);
  }

  core::SimulatedReactor reactor_{7};
  Dispatcher dispatcher_;
  std::vector<std::uint64_t> sessions_opened;
  std::vector<Ended> why_ended;
  int slow_running = 0;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Server> server_;
  core::Address address_;
  std::vector<std::unique_ptr<Client>> clients_;
};

// Its policies take so long that the credentials have ended when they let a client in.
class LateDoor final : public Door {
 public:
  [[nodiscard]] bool wants_token() const override { return true; }
  [[nodiscard]] Task<std::expected<Admission, Denial>> admit(const Caller& caller) override {
    Admission admission{.handshake = {.peer = std::string(caller.peer)}};
    admission.standing = []() -> Task<void> { co_return; }();
    co_return admission;
  }
};

TEST_F(SessionTest, CredentialsThatEndWhileTheDoorDecides) {
  start();
  server_->set_door(std::make_shared<LateDoor>());
  Client& client = connect();
  client.send(Client::encoded({.id = token_id, .flags = correlated_flag, .correlation = 1}) +
              Client::encoded({.id = echo_id, .body = bytes_of("no")}));
  pass(5s);
  ASSERT_EQ(client.received.size(), 2u);
  EXPECT_EQ(client.received[0].correlation, 1u);
  EXPECT_TRUE(client.received[1].is_error);
  EXPECT_EQ(client.received[1].id, token_id);
  EXPECT_TRUE(client.ended);
}

TEST_F(SessionTest, AClientLeavesWhileItsHandlerWaits) {
  start();
  Client& gone = connect();
  gone.send(Frame{.id = slow_id});
  pass(100ms);
  ASSERT_EQ(slow_running, 1);
  gone.leave();
  pass(800ms);
  EXPECT_EQ(slow_running, 1) << "it may have ended its side alone";
  pass(300ms);
  EXPECT_EQ(slow_running, 0);
  pass(5s);
  EXPECT_EQ(why_ended, std::vector{Ended::by_peer});
}

TEST_F(SessionTest, AClientLeavesASessionThatIsEnding) {
  start();
  Client& gone = connect();
  gone.send(Frame{.id = slow_id});
  pass(100ms);
  sessions_->all()[0]->close();
  gone.leave();
  pass(1100ms);
  EXPECT_EQ(slow_running, 0);
}

TEST_F(SessionTest, AConnectionIsResetWhileAHandlerWaits) {
  start();
  Client& client = connect();
  client.send(Frame{.id = slow_id});
  pass(100ms);
  ASSERT_EQ(slow_running, 1);
  client.reset(reactor_);
  pass(100ms);
  EXPECT_EQ(slow_running, 0);
  EXPECT_EQ(why_ended, std::vector{Ended::lost});
}

TEST_F(SessionTest, MoreMessagesThanOneClientMaySend) {
  start({.message_interval = 100ms, .message_burst = 3});
  Client& client = connect();
  for (int i = 0; i < 3; ++i) client.send(Frame{.id = echo_id});
  pass(10ms);
  EXPECT_EQ(client.received.size(), 3u);
  for (int i = 0; i < 5; ++i) {
    pass(110ms);
    client.send(Frame{.id = echo_id});
  }
  pass(20ms);
  EXPECT_EQ(client.received.size(), 8u) << "at its rate, it may go on";
  EXPECT_FALSE(client.ended);
  for (std::uint32_t i = 0; i < 9; ++i) {
    client.send(Frame{.id = echo_id, .flags = correlated_flag, .correlation = i});
  }
  pass(1s);
  ASSERT_GE(client.received.size(), 9u);
  EXPECT_LT(client.received.size(), 12u);
  const Received& last = client.received.back();
  ASSERT_TRUE(last.is_error);
  EXPECT_EQ(parse_error(bytes_of(last.body))->code, ErrorCode::overloaded);
  EXPECT_EQ(last.correlation, client.received.size() - 9);
  EXPECT_TRUE(client.ended);
  EXPECT_EQ(why_ended, std::vector{Ended::limited});
  EXPECT_EQ(sessions_->counters().limited, 1u);
}

TEST_F(SessionTest, TheMemoryOfAllSessionsIsLimited) {
  start({.most_queued = 1'000'000, .memory = 200'000});
  std::vector<Client*> stalled;
  for (int i = 0; i < 4; ++i) stalled.push_back(&connect());
  Client& other = connect();
  const std::string large(100'000, 'x');
  std::string all;
  for (int i = 0; i < 20; ++i) all += Client::encoded({.id = echo_id, .body = bytes_of(large)});
  for (Client* client : stalled) {
    client->stall();
    client->send(all);
  }
  pass(20s);
  EXPECT_GE(why_ended.size(), 1u);
  std::size_t queued = 0;
  for (const Session* session : sessions_->all()) queued += session->queued();
  EXPECT_LE(queued, 200'000 + 5 * 100'012u);
  other.send(Frame{.id = echo_id, .body = bytes_of("small")});
  pass(100ms);
  ASSERT_EQ(other.received.size(), 1u);
  EXPECT_FALSE(other.ended);
}

TEST_F(SessionTest, FramesThatHaveNotArrivedWholeCount) {
  start({.memory = 200'000});
  std::vector<Client*> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(&connect());
  const std::string most =
      Client::encoded({.id = echo_id, .body = bytes_of(std::string(150'000, 'x'))}).substr(0, 140'000);
  for (Client* client : clients) {
    client->stall();  // it could not close its end while it writes
    client->send(most);
  }
  pass(5s);
  EXPECT_GE(sessions_->counters().out_of_memory, 2u);
  ASSERT_GE(sessions_->all().size(), 1u) << "what is left has room";
}

TEST_F(SessionTest, ItBelongsToOneCore) {
  start();
  (void)connect();
  Session* const session = sessions_->all()[0];
  EXPECT_DEATH(std::thread([session] { session->send(echo_id, "from elsewhere"); }).join(), "is_here");
}

TEST_F(SessionTest, Echo) {
  start();
  Client& client = connect();
  client.send(Frame{.id = echo_id, .flags = correlated_flag, .correlation = 7, .body = bytes_of("hello")});
  client.send(Frame{.id = echo_id, .body = {}});
  pass(10ms);
  ASSERT_EQ(client.received.size(), 2u);
  EXPECT_EQ(client.received[0].body, "hello");
  EXPECT_EQ(client.received[0].correlation, 7u);
  EXPECT_EQ(client.received[1].body, "");
  EXPECT_FALSE(client.received[1].correlation);
  EXPECT_EQ(sessions_->counters().frames_in, 2u);
  EXPECT_EQ(sessions_->counters().frames_out, 2u);
  EXPECT_EQ(sessions_->counters().open, 1u);
  ASSERT_EQ(sessions_opened.size(), 1u);
  EXPECT_NE(sessions_->find(sessions_opened[0]), nullptr);
  client.leave();
  pass(5s);
  EXPECT_EQ(why_ended, std::vector{Ended::by_peer});
  EXPECT_EQ(sessions_->find(sessions_opened[0]), nullptr);
  EXPECT_EQ(sessions_->counters().open, 0u);
  EXPECT_EQ(reactor_.open_handles(), 1u) << "the listener";
}

TEST_F(SessionTest, BytesMayArriveOneByOne) {
  start();
  Client& client = connect();
  for (const char byte : Client::encoded({.id = echo_id, .body = bytes_of("slowly")})) {
    client.send(std::string(1, byte));
    pass(100ms);
  }
  ASSERT_EQ(client.received.size(), 1u);
  EXPECT_EQ(client.received[0].body, "slowly");
}

TEST_F(SessionTest, LargeFrames) {
  start({.most_body = largest_body, .most_queued = 64 * 1024 * 1024});
  Client& client = connect();
  const std::string large(5'000'000, 'x');
  client.send(Frame{.id = echo_id, .body = bytes_of(large)});
  pass(30s);
  ASSERT_EQ(client.received.size(), 1u);
  EXPECT_EQ(client.received[0].body, large);
}

TEST_F(SessionTest, AFlatBufferIsVerified) {
  start();
  Client& client = connect();
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(test::CreateLoginRequestDirect(builder, "ada", "secret"));
  const std::string valid(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  client.send(Frame{.id = login_id, .body = bytes_of(valid)});
  client.send(Frame{.id = login_id, .body = bytes_of(valid.substr(0, valid.size() - 5))});
  pass(10ms);
  const std::string long_name(70'000, 'a');
  builder.Clear();
  builder.Finish(test::CreateLoginRequestDirect(builder, long_name.c_str(), "secret"));
  const std::string large(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  client.send(Client::encoded({.id = login_id, .body = bytes_of(large)}) +
              Client::encoded({.id = large_login_id, .body = bytes_of(large)}));
  pass(100ms);
  ASSERT_EQ(client.received.size(), 4u);
  EXPECT_EQ(client.received[0].body, "ada");
  EXPECT_TRUE(client.received[1].is_error);
  EXPECT_TRUE(client.received[2].is_error);
  EXPECT_EQ(client.received[3].body, long_name);
  EXPECT_EQ(parse_error(bytes_of(client.received[1].body))->code, ErrorCode::bad_payload);
}

TEST_F(SessionTest, UnknownMessages) {
  start();
  Client& client = connect();
  client.send(Frame{.id = 5555, .flags = correlated_flag, .correlation = 3});
  client.send(Frame{.id = gap_id});
  client.send(Frame{.id = 5555, .flags = error_flag, .body = bytes_of(std::string_view("\0\0\0\1x", 5))});
  client.send(Frame{.id = ping_id, .flags = correlated_flag, .correlation = 4});
  client.send(Frame{.id = ping_id});
  pass(10ms);
  ASSERT_EQ(client.received.size(), 3u) << "an error is not answered with an error, a plain ping not at all";
  EXPECT_EQ(client.received[0].correlation, 3u);
  EXPECT_EQ(parse_error(bytes_of(client.received[0].body))->code, ErrorCode::unknown_message);
  EXPECT_EQ(parse_error(bytes_of(client.received[1].body))->code, ErrorCode::unknown_message);
  EXPECT_EQ(client.received[2].id, ping_id);
  EXPECT_EQ(client.received[2].correlation, 4u);
}

TEST_F(SessionTest, AHandlerThatThrows) {
  start();
  Client& client = connect();
  client.send(Frame{.id = throw_id});
  client.send(Frame{.id = echo_id, .body = bytes_of("still here")});
  pass(10ms);
  ASSERT_EQ(client.received.size(), 2u);
  EXPECT_EQ(parse_error(bytes_of(client.received[0].body))->code, ErrorCode::internal);
  EXPECT_EQ(client.received[1].body, "still here");
  EXPECT_EQ(sessions_->counters().failed_handlers, 1u);
}

TEST_F(SessionTest, BadFramesEndTheSession) {
  start({.most_body = 1000});
  std::string version = Client::encoded({.id = echo_id});
  version[0] = 9;
  std::string lie = Client::encoded({.id = echo_id});
  lie[8] = 4;  // a body of 1,024 bytes
  for (const auto& [bytes, code] : {std::pair{version, ErrorCode::bad_frame}, std::pair{lie, ErrorCode::too_large}}) {
    Client& client = connect();
    client.send(Client::encoded({.id = echo_id, .body = bytes_of("before")}) + bytes + "and more");
    pass(5s);
    ASSERT_EQ(client.received.size(), 2u);
    EXPECT_EQ(parse_error(bytes_of(client.received[1].body))->code, code);
    EXPECT_TRUE(client.ended);
  }
  EXPECT_EQ(why_ended, (std::vector{Ended::refused, Ended::refused}));
  EXPECT_EQ(sessions_->counters().bad_frames, 2u);
}

TEST_F(SessionTest, AFrameMustArriveInTime) {
  start();
  Client& client = connect();
  client.send(Client::encoded({.id = echo_id, .body = bytes_of("never whole")}).substr(0, 15));
  pass(5s);
  client.send("r");  // does not extend the time
  pass(6s);
  EXPECT_TRUE(client.ended);
  EXPECT_EQ(why_ended, std::vector{Ended::refused});
}

TEST_F(SessionTest, Heartbeats) {
  start();
  Client& client = connect();
  pass(31s);
  ASSERT_EQ(client.received.size(), 1u);
  EXPECT_EQ(client.received[0].id, ping_id);
  client.send(Frame{.id = ping_id});
  pass(31s);
  EXPECT_EQ(client.received.size(), 2u);
  pass(50s);
  EXPECT_TRUE(client.ended);
  EXPECT_EQ(why_ended, std::vector{Ended::idle});
}

TEST_F(SessionTest, FramesWaitForTheirHandlersInOrder) {
  start();
  Client& client = connect();
  client.send(Frame{.id = slow_id, .body = bytes_of("first")});
  client.send(Frame{.id = echo_id, .body = bytes_of("second")});
  pass(1s);
  EXPECT_EQ(client.received.size(), 0u);
  EXPECT_EQ(slow_running, 1);
  pass(2s);
  ASSERT_EQ(client.received.size(), 2u);
  EXPECT_EQ(client.received[0].body, "first");
  EXPECT_EQ(client.received[1].body, "second");
}

TEST_F(SessionTest, CloseWritesWhatIsQueued) {
  start();
  Client& client = connect();
  client.send(Frame{.id = close_id});
  client.send(Frame{.id = echo_id, .body = bytes_of("not read")});
  pass(5s);
  ASSERT_EQ(client.received.size(), 1u);
  EXPECT_EQ(client.received[0].body, "bye");
  EXPECT_TRUE(client.ended);
  EXPECT_EQ(why_ended, std::vector{Ended::by_server});
}

TEST_F(SessionTest, CutCancelsAHandler) {
  start();
  Client& client = connect();
  client.send(Frame{.id = slow_id});
  pass(1s);
  EXPECT_EQ(slow_running, 1);
  sessions_->all()[0]->cut(Ended::by_server);
  pass(10ms);
  EXPECT_EQ(slow_running, 0);
  EXPECT_TRUE(client.ended);
  EXPECT_EQ(client.received.size(), 0u);
}

TEST_F(SessionTest, ADrainLetsHandlersEnd) {
  start();
  Client& busy = connect();
  Client& idle = connect();
  busy.send(Frame{.id = slow_id, .body = bytes_of("done")});
  pass(10ms);
  server_->drain(100ms);
  pass(1s);
  EXPECT_TRUE(idle.ended);
  EXPECT_FALSE(busy.ended);
  EXPECT_FALSE(server_->drained());
  pass(5s);
  ASSERT_EQ(busy.received.size(), 1u);
  EXPECT_EQ(busy.received[0].body, "done");
  EXPECT_TRUE(busy.ended);
  EXPECT_TRUE(server_->drained());
}

TEST_F(SessionTest, ASlowReceiverIsClosed) {
  start({.most_queued = 100'000});
  Client& client = connect();
  Client& other = connect();
  client.stall();
  const Payload payload = make_payload({.id = echo_id, .body = bytes_of(std::string(10'000, 'x'))});
  for (int i = 0; i < 100; ++i) {
    sessions_->broadcast(payload);
    pass(10ms);
  }
  EXPECT_EQ(why_ended, std::vector{Ended::slow});
  EXPECT_EQ(other.received.size(), 100u);
  EXPECT_EQ(sessions_->counters().open, 1u);
}

TEST_F(SessionTest, ASlowReceiverLearnsOfGaps) {
  start({.most_queued = 100'000, .slow_receiver = SlowReceiver::mark_gaps});
  Client& client = connect();
  client.stall();
  std::size_t sent = 0;
  for (int i = 0; i < 100; ++i) {
    if (sessions_->all()[0]->send(echo_id, std::string(10'000, 'x'))) ++sent;
    pass(10ms);
  }
  EXPECT_LT(sent, 50u);
  EXPECT_EQ(sessions_->counters().dropped, 100 - sent);
  client.resume();
  pass(1s);
  ASSERT_EQ(client.received.size(), sent + 1);
  EXPECT_EQ(client.received.back().id, gap_id);
  EXPECT_EQ(client.received.back().body, std::string("\0\0\0", 3) + static_cast<char>(100 - sent));
  client.send(Frame{.id = echo_id, .body = bytes_of("again")});
  pass(10ms);
  EXPECT_EQ(client.received.back().body, "again");
}

// One write waits for the client, and the frames behind it alone fill the queue.
TEST_F(SessionTest, AGapCountsFramesUntilTheWholeQueueIsWritten) {
  start({.most_queued = 100'000, .slow_receiver = SlowReceiver::mark_gaps});
  Client& client = connect();
  client.stall();
  Session& session = *sessions_->all()[0];
  EXPECT_TRUE(session.send(echo_id, std::string(90'000, 'x')));
  pass(10ms);
  EXPECT_TRUE(session.send(echo_id, std::string(200'000, 'x')));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(session.send(echo_id, "dropped"));
  client.resume();
  pass(1s);
  ASSERT_EQ(client.received.size(), 3U);
  EXPECT_EQ(client.received.back().id, gap_id);
  EXPECT_EQ(client.received.back().body, std::string("\0\0\0\3", 4));
}

TEST_F(SessionTest, ASessionThatEndsTellsOfItsGap) {
  start({.most_queued = 100'000, .slow_receiver = SlowReceiver::mark_gaps});
  Client& client = connect();
  client.stall();
  Session& session = *sessions_->all()[0];
  EXPECT_TRUE(session.send(echo_id, std::string(200'000, 'x')));
  EXPECT_FALSE(session.send(echo_id, "dropped"));
  session.close();
  pass(10ms);
  client.resume();
  pass(1s);
  ASSERT_EQ(client.received.size(), 2U);
  EXPECT_EQ(client.received.back().id, gap_id);
  EXPECT_TRUE(client.ended);
}

TEST_F(SessionTest, AClientThatNeverReadsItsAnswersIsNotReadEither) {
  start({.most_queued = 100'000, .write_timeout = 60s});
  Client& client = connect();
  std::string many;
  for (int i = 0; i < 100; ++i) many += Client::encoded({.id = echo_id, .body = bytes_of(std::string(10'000, 'x'))});
  client.stall();
  client.send(std::move(many));
  pass(1s);
  ASSERT_EQ(sessions_->all().size(), 1u);
  EXPECT_LE(sessions_->all()[0]->queued(), 100'000u);
}

TEST_F(SessionTest, LimitsOfSessions) {
  start({.sessions = 3, .sessions_per_address = 2});
  Client& first = connect();
  connect();
  Client& third = connect();
  EXPECT_TRUE(third.ended);
  EXPECT_EQ(sessions_->counters().refused, 1u);
  first.leave();
  pass(5s);
  Client& fourth = connect();
  EXPECT_FALSE(fourth.ended);
}

TEST_F(SessionTest, AReferenceOutlivesTheSession) {
  start();
  Client& client = connect();
  const SessionRef kept(*sessions_->all()[0]);
  client.leave();
  pass(5s);
  EXPECT_EQ(kept->state(), Session::State::ended);
  EXPECT_FALSE(kept->send(echo_id, "nobody"));
  EXPECT_FALSE(kept->send(Frame{.id = echo_id, .flags = 0x80}));
  kept->close();
  pass(10ms);
}

TEST_F(SessionTest, IdsGrowOverRestarts) {
  start();
  connect();
  connect();
  EXPECT_LT(sessions_opened[0], sessions_opened[1]);
  Sessions later(reactor_, 0, dispatcher_, nullptr, {});
  EXPECT_GT(later.next_id(), sessions_opened[1]);
  Sessions other(reactor_, 1, dispatcher_, nullptr, {});
  EXPECT_NE(other.next_id(), later.next_id() - 256);
}

TEST_F(SessionTest, MemoryOfATurn) {
  start();
  void* const first = sessions_->arena().allocate(100);
  pass(1ms);
  reactor_.turn(reactor_.now());
  EXPECT_EQ(sessions_->arena().allocate(100), first);
}

TEST(Dispatcher, RefusesTwoHandlersAndReservedIds) {
  Dispatcher dispatcher;
  const auto nothing = [](Session&, const Frame&) {};
  for (std::uint32_t id = 0; id < 1000; ++id) dispatcher.on(id * 7919, nothing);
  EXPECT_THROW(dispatcher.on(500 * 7919, nothing), std::invalid_argument);
  EXPECT_THROW(dispatcher.on(first_reserved_id, nothing), std::invalid_argument);
  dispatcher.otherwise(nothing);
  EXPECT_THROW(dispatcher.otherwise(nothing), std::invalid_argument);
}

}  // namespace
}  // namespace sluice::msg
