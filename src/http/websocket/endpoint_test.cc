// Tests conversations on the simulated reactor, behind the real HTTP server: the handshake, messages in both
// directions, keep-alive, the close handshake, backpressure, and network faults.
#include "http/websocket/endpoint.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"
#include "http/server.h"
#include "net/stream.h"

namespace sluice::http::websocket {
namespace {

using namespace std::string_literals;
using core::Task;
using namespace ws;

constexpr Mask test_mask{'\x37', '\xfa', '\x21', '\x3d'};

std::string frame(Opcode opcode, std::string_view payload, bool fin = true, bool compressed = false) {
  Buffer out;
  append_header(out, {.opcode = opcode,
                      .fin = fin,
                      .compressed = compressed,
                      .masked = true,
                      .mask = test_mask,
                      .payload_size = payload.size()});
  std::string body(payload);
  apply_mask(body.data(), body.data(), body.size(), test_mask);
  out.append(body);
  return std::string(out.view());
}

std::string close_frame(CloseCode code) {
  Buffer out;
  append_close(out, code);
  return frame(Opcode::close, out.view().substr(2));
}

struct Event {
  Decoder::Event::Kind kind = Decoder::Event::Kind::need_more;
  CloseCode code = CloseCode::none;
  std::string data;
};

// A client on the same reactor, driven by the test.
class Client {
 public:
  explicit Client(core::Reactor& reactor) : stream_(reactor) {}

  Task<bool> open(core::Address address, std::string extra = {}, std::string behind = {}) {
    core::Reactor& reactor = stream_.reactor();
    if (!co_await stream_.connect(address, reactor.now() + 10s)) co_return false;
    if (!co_await send("GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" +
                       extra + "\r\n" + behind)) {
      co_return false;
    }
    for (;;) {
      const auto end = in_.view().find("\r\n\r\n");
      if (end != std::string_view::npos) {
        answer = in_.view().substr(0, end + 2);
        in_.consume(end + 4);
        co_return answer.starts_with("HTTP/1.1 101 ") &&
            answer.find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") !=
                std::string::npos&& answer.find("Connection: upgrade\r\n") != std::string::npos;
      }
      const auto got = co_await stream_.read(in_, 4096, reactor.now() + 60s);
      if (!got || *got == 0) co_return false;
    }
  }
  Task<bool> send(std::string bytes) {
    iovec part{bytes.data(), bytes.size()};
    const auto written = co_await stream_.write({&part, 1}, 600s);
    co_return written.has_value();
  }
  // Returns need_more if the connection has ended.
  Task<Event> next() {
    for (;;) {
      const Decoder::Event event = decoder_.next({in_.data(), in_.size()});
      if (event.kind != Decoder::Event::Kind::need_more) {
        Event result{event.kind, event.code, std::string(event.data)};
        in_.consume(event.consumed);
        co_return result;
      }
      in_.consume(event.consumed);
      const auto got = co_await stream_.read(in_, 16 * 1024, stream_.reactor().now() + 600s);
      if (!got || *got == 0) co_return Event{};
    }
  }
  void close() { stream_.close(); }
  [[nodiscard]] net::Stream& stream() { return stream_; }

  std::string answer;

 private:
  net::Stream stream_;
  Buffer in_;
  Inflater inflater_{15};
  Decoder decoder_{{.max_frame = 1u << 30,
                    .max_message = 1u << 30,
                    .peer_masks = false,
                    .inflater = &inflater_,
                    .keep_context = true}};
};

// A service whose behavior is set by the test.
class Scripted final : public Service {
 public:
  Task<void> converse(Channel& channel, const Opening& opening) override {
    ++begun;
    co_await script(channel, opening);
    code = channel.close_code();
    by_peer = channel.closed_by_peer();
    ++ended;
  }
  std::function<Task<void>(Channel&, const Opening&)> script;
  int begun = 0;
  int ended = 0;
  CloseCode code = CloseCode::none;
  bool by_peer = false;
};

Task<void> echo(Channel& channel, const Opening& opening) {
  Echo echo;
  co_await echo.converse(channel, opening);
}

class ChannelTest : public testing::Test {
 public:
  void start(core::Faults faults = {}, std::uint64_t seed = 1) {
    reactor = std::make_unique<core::SimulatedReactor>(seed, faults);
    service.script = &echo;
    endpoint = std::make_shared<Endpoint>(options, service, channels);
    server = std::make_unique<Server>(*reactor, *endpoint, server_options);
    address = *server->listen(*core::Address::parse("127.0.0.1:80"));
    client = std::make_unique<Client>(*reactor);
  }
  // Runs a coroutine of the test until it ends.
  void run(Task<void> task) {
    core::TaskGroup tasks;
    bool done = false;
    tasks.spawn([](Task<void> inner, bool& flag) -> Task<void> {
      co_await std::move(inner);
      flag = true;
    }(std::move(task), done));
    for (int turns = 0; !done && turns < 2'000'000; ++turns) reactor->turn(reactor->now() + 1s);
    ASSERT_TRUE(done) << "this never comes";
  }
  void run_for(Duration time) {
    const Instant end = reactor->now() + time;
    while (reactor->now() < end) reactor->turn(end);
  }
  void TearDown() override {
    client.reset();
    if (!server) return;
    // No connection may be left when all clients have closed.
    server->drain();
    for (int turns = 0; !server->drained() && turns < 100'000; ++turns) reactor->turn(reactor->now() + 1s);
    EXPECT_TRUE(server->drained());
    EXPECT_EQ(channels.counters().open, 0u);
    EXPECT_EQ(service.begun, service.ended);
  }

  WebSocketOptions options;
  ServerOptions server_options;
  Scripted service;
  ws::ChannelPool channels;
  std::unique_ptr<core::SimulatedReactor> reactor;
  std::shared_ptr<Endpoint> endpoint;
  std::unique_ptr<Server> server;
  std::unique_ptr<Client> client;
  core::Address address;
};

using Kind = Decoder::Event::Kind;

TEST_F(ChannelTest, EchoesAndCloses) {
  start();
  run([](ChannelTest& test) -> Task<void> {
    Client& client = *test.client;
    EXPECT_TRUE(co_await client.open(test.address));
    (void)co_await client.send(frame(Opcode::text, "Hello") + frame(Opcode::binary, std::string(70'000, 'b')));
    Event event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::text);
    EXPECT_EQ(event.data, "Hello");
    event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::binary);
    EXPECT_EQ(event.data, std::string(70'000, 'b'));
    (void)co_await client.send(close_frame(CloseCode::normal));
    event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::close);
    EXPECT_EQ(event.code, CloseCode::normal);
    event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::need_more);
  }(*this));
  EXPECT_EQ(service.code, CloseCode::normal);
  EXPECT_TRUE(service.by_peer);
}

TEST_F(ChannelTest, MessagesMayComeWithTheHandshake) {
  start();
  run([](ChannelTest& test) -> Task<void> {
    EXPECT_TRUE(
        co_await test.client->open(test.address, {}, frame(Opcode::text, "early") + frame(Opcode::text, "bird")));
    Event event = co_await test.client->next();
    EXPECT_EQ(event.data, "early");
    event = co_await test.client->next();
    EXPECT_EQ(event.data, "bird");
  }(*this));
}

TEST_F(ChannelTest, AnswersPingsBetweenFragmentsAndTakesUnaskedPongs) {
  start();
  run([](ChannelTest& test) -> Task<void> {
    Client& client = *test.client;
    EXPECT_TRUE(co_await client.open(test.address));
    (void)co_await client.send(frame(Opcode::text, "one ", false) + frame(Opcode::ping, "are you there?") +
                               frame(Opcode::pong, "unasked"));
    Event event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::pong);
    EXPECT_EQ(event.data, "are you there?");
    (void)co_await client.send(frame(Opcode::continuation, "two"));
    event = co_await client.next();
    EXPECT_EQ(event.data, "one two");
  }(*this));
}

TEST_F(ChannelTest, ProtocolErrorsEndItWithTheirCode) {
  start();
  struct Case {
    std::string bytes;
    CloseCode code;
  };
  const std::vector<Case> cases = {{"\x81\x01x"s, CloseCode::protocol_error},
                                   {frame(Opcode::text, "\xff"), CloseCode::invalid_data},
                                   {frame(Opcode::binary, std::string((1 << 20) + 1, 'x')), CloseCode::too_large},
                                   {"\x88\x81\0\0\0\0\x03"s, CloseCode::protocol_error}};
  for (const Case& wrong : cases) {
    client = std::make_unique<Client>(*reactor);
    run([](ChannelTest& test, const Case& each) -> Task<void> {
      EXPECT_TRUE(co_await test.client->open(test.address));
      (void)co_await test.client->send(each.bytes);
      Event event = co_await test.client->next();
      EXPECT_EQ(event.kind, Kind::close);
      EXPECT_EQ(event.code, each.code);
      event = co_await test.client->next();
      EXPECT_EQ(event.kind, Kind::need_more);
    }(*this, wrong));
    EXPECT_EQ(service.code, wrong.code);
    EXPECT_FALSE(service.by_peer);
  }
}

TEST_F(ChannelTest, ASilentPeerIsPingedAndThenCut) {
  start();
  run([](ChannelTest& test) -> Task<void> {
    Client& client = *test.client;
    EXPECT_TRUE(co_await client.open(test.address));
    const Instant begin = test.reactor->now();
    for (int i = 1; i <= 3; ++i) {
      const Event event = co_await client.next();
      EXPECT_EQ(event.kind, Kind::ping);
      EXPECT_GE(test.reactor->now() - begin, i * 30s);
      EXPECT_LE(test.reactor->now() - begin, i * 31s);
      (void)co_await client.send(frame(Opcode::pong, event.data));
    }
    Event event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::ping);
    const Instant asked = test.reactor->now();
    event = co_await client.next();  // this ping is not answered
    EXPECT_EQ(event.kind, Kind::need_more);
    EXPECT_GE(test.reactor->now() - asked, 9900ms);
    EXPECT_LE(test.reactor->now() - asked, 11s);
  }(*this));
  EXPECT_EQ(service.code, CloseCode::abnormal);
}

TEST_F(ChannelTest, AnythingThatComesKeepsItAlive) {
  start();
  run([](ChannelTest& test) -> Task<void> {
    Client& client = *test.client;
    EXPECT_TRUE(co_await client.open(test.address));
    for (int i = 0; i < 6; ++i) {
      co_await core::Sleep(*test.reactor, test.reactor->now() + 20s);
      (void)co_await client.send(frame(Opcode::text, "still here"));
      const Event event = co_await client.next();
      EXPECT_EQ(event.kind, Kind::text);
    }
  }(*this));
}

TEST_F(ChannelTest, ALostConnectionIsAbnormal) {
  start();
  run([](ChannelTest& test) -> Task<void> {
    EXPECT_TRUE(co_await test.client->open(test.address));
    test.client->close();
  }(*this));
  run_for(5s);
  EXPECT_EQ(service.ended, 1);
  EXPECT_EQ(service.code, CloseCode::abnormal);
}

TEST_F(ChannelTest, WhenTheServiceReturnsTheChannelSaysGoodbye) {
  start();
  service.script = [](Channel& channel, const Opening&) -> Task<void> {
    (void)co_await channel.send(Message::Kind::text, "that is all");
  };
  run([](ChannelTest& test) -> Task<void> {
    Client& client = *test.client;
    EXPECT_TRUE(co_await client.open(test.address));
    Event event = co_await client.next();
    EXPECT_EQ(event.data, "that is all");
    event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::close);
    EXPECT_EQ(event.code, CloseCode::normal);
    // Further messages are dropped. The client's close frame ends the conversation.
    (void)co_await client.send(frame(Opcode::text, "late") + frame(Opcode::ping, "late") +
                               close_frame(CloseCode::normal));
    event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::need_more);
  }(*this));
}

TEST_F(ChannelTest, ACloseThatIsNotAnsweredEndsWithItsTimeout) {
  start();
  service.script = [](Channel& channel, const Opening&) -> Task<void> {
    co_await channel.close(static_cast<CloseCode>(3001), "enough");
  };
  run([](ChannelTest& test) -> Task<void> {
    Client& client = *test.client;
    EXPECT_TRUE(co_await client.open(test.address));
    Event event = co_await client.next();
    EXPECT_EQ(event.code, static_cast<CloseCode>(3001));
    EXPECT_EQ(event.data, "enough");
    const Instant begin = test.reactor->now();
    event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::need_more);
    EXPECT_GE(test.reactor->now() - begin, 4900ms);
    EXPECT_LE(test.reactor->now() - begin, 8s);
  }(*this));
}

TEST_F(ChannelTest, DrainingSaysGoingAway) {
  start();
  run([](ChannelTest& test) -> Task<void> {
    Client& client = *test.client;
    EXPECT_TRUE(co_await client.open(test.address));
    test.server->drain();
    Event event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::close);
    EXPECT_EQ(event.code, CloseCode::going_away);
    (void)co_await client.send(close_frame(CloseCode::going_away));
    event = co_await client.next();
    EXPECT_EQ(event.kind, Kind::need_more);
    client.close();
  }(*this));
  run_for(100ms);
  EXPECT_TRUE(server->drained());
  EXPECT_EQ(service.code, CloseCode::going_away);
}

TEST_F(ChannelTest, DrainingIsSpread) {
  start();
  constexpr int count = 600;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < count; ++i) clients.push_back(std::make_unique<Client>(*reactor));
  int told = 0;
  core::TaskGroup reading;
  const auto read = [](Client& one, int& count) -> Task<void> {
    const Event event = co_await one.next();
    EXPECT_EQ(event.code, CloseCode::going_away);
    ++count;
    (void)co_await one.send(close_frame(CloseCode::going_away));
    one.close();
  };
  run([](auto& test, auto& all) -> Task<void> {
    for (auto& one : all) EXPECT_TRUE(co_await one->open(test.address));
  }(*this, clients));
  for (auto& one : clients) reading.spawn(read(*one, told));
  server->drain(2s);
  run_for(1s);
  EXPECT_GT(told, count / 4);
  EXPECT_LT(told, count * 3 / 4);
  run_for(1500ms);
  EXPECT_EQ(told, count);
  EXPECT_TRUE(server->drained());
}

TEST_F(ChannelTest, DrainingWaitsNotLongForThoseWhoDoNotAnswer) {
  start();
  run([](ChannelTest& test) -> Task<void> {
    EXPECT_TRUE(co_await test.client->open(test.address));
    test.server->drain();
    const Event event = co_await test.client->next();
    EXPECT_EQ(event.code, CloseCode::going_away);
  }(*this));
  run_for(4s);
  EXPECT_FALSE(server->drained());
  run_for(4s);  // the close timeout is 5 s, lingering 2 s
  EXPECT_TRUE(server->drained());
}

// If a peer does not read, the output that waits for it is bounded, and other connections continue.
TEST_F(ChannelTest, ASenderAwaitsWhoeverIsSlower) {
  start({.buffer = 64 * 1024});
  static int sent;
  sent = 0;
  service.script = [](Channel& channel, const Opening&) -> Task<void> {
    const std::string message(1000, 'm');
    for (int i = 0; i < 10'000; ++i) {
      if (!co_await channel.send(Message::Kind::binary, message)) co_return;
      ++sent;
    }
  };
  run([](ChannelTest& test) -> Task<void> { EXPECT_TRUE(co_await test.client->open(test.address)); }(*this));
  run_for(10s);
  EXPECT_GE(sent, 60);
  EXPECT_LE(sent, 400);  // two buffers of the network, and two of the server
  run([](ChannelTest& test) -> Task<void> {
    for (int i = 0; i < 10'000; ++i) {
      const Event event = co_await test.client->next();
      EXPECT_EQ(event.data.size(), 1000u);
    }
  }(*this));
  EXPECT_EQ(sent, 10'000);
}

TEST_F(ChannelTest, APeerThatNeverReadsIsCut) {
  start({.buffer = 64 * 1024});
  service.script = [](Channel& channel, const Opening&) -> Task<void> {
    const std::string message(1000, 'm');
    while (co_await channel.send(Message::Kind::binary, message)) {
    }
  };
  run([](ChannelTest& test) -> Task<void> { EXPECT_TRUE(co_await test.client->open(test.address)); }(*this));
  run_for(25s);
  EXPECT_EQ(service.ended, 0);
  run_for(15s);
  EXPECT_EQ(service.ended, 1);
  EXPECT_EQ(service.code, CloseCode::abnormal);
}

TEST_F(ChannelTest, AReceiverThatDoesNotAskIsNotReadFor) {
  start({.buffer = 64 * 1024});
  static core::Reactor* clock;
  clock = reactor.get();
  static std::size_t received;
  received = 0;
  service.script = [](Channel& channel, const Opening&) -> Task<void> {
    co_await core::Sleep(*clock, clock->now() + 20s);
    while (const auto message = co_await channel.receive()) received += message->data.size();
  };
  static std::size_t written;
  written = 0;
  core::TaskGroup tasks;
  run([](ChannelTest& test) -> Task<void> { EXPECT_TRUE(co_await test.client->open(test.address)); }(*this));
  tasks.spawn([](ChannelTest& test) -> Task<void> {
    for (int i = 0; i < 100; ++i) {
      if (!co_await test.client->send(frame(Opcode::binary, std::string(10'000, 'x')))) co_return;
      written += 10'000;
    }
  }(*this));
  run_for(10s);
  EXPECT_LE(written, 200'000u);
  run_for(15s);
  EXPECT_EQ(written, 1'000'000u);
  EXPECT_EQ(received, 1'000'000u);
}

// Several coroutines send at once, one of them messages that are too long to be copied. Frames must not be interleaved.
TEST_F(ChannelTest, ManySendersTakeTurns) {
  start({.short_write = 0.5, .would_block = 0.3, .split = 0.5, .buffer = 20'000});
  constexpr int senders = 8;
  constexpr int messages = 50;
  service.script = [](Channel& channel, const Opening&) -> Task<void> {
    core::TaskGroup tasks;
    int left = senders;
    for (int i = 0; i < senders; ++i) {
      tasks.spawn([](Channel& to, int number, int& running) -> Task<void> {
        for (int k = 0; k < messages; ++k) {
          const std::size_t size = number % 2 == 0 ? 100 + static_cast<std::size_t>(k) : 40'000;
          const std::string message = std::to_string(number) + ":" + std::to_string(k) + ":" +
                                      std::string(size, static_cast<char>('a' + number));
          if (!co_await to.send(Message::Kind::text, message)) break;
        }
        --running;
      }(channel, i, left));
    }
    while (co_await channel.receive()) {
    }
    EXPECT_EQ(left, 0);
  };
  run([](ChannelTest& test) -> Task<void> {
    EXPECT_TRUE(co_await test.client->open(test.address));
    std::vector<int> next(senders);
    (void)co_await test.client->send(frame(Opcode::ping, "in between"));
    for (int i = 0; i < senders * messages;) {
      const Event event = co_await test.client->next();
      if (event.kind == Kind::pong) continue;
      EXPECT_EQ(event.kind, Kind::text);
      if (event.kind != Kind::text) co_return;
      const int number = std::stoi(event.data);
      EXPECT_EQ(event.data.substr(0, 2 + std::to_string(next[static_cast<std::size_t>(number)]).size() + 1),
                std::to_string(number) + ":" + std::to_string(next[static_cast<std::size_t>(number)]) + ":");
      ++next[static_cast<std::size_t>(number)];
      EXPECT_EQ(event.data.back(), static_cast<char>('a' + number));
      ++i;
    }
    (void)co_await test.client->send(close_frame(CloseCode::normal));
    const Event event = co_await test.client->next();
    EXPECT_EQ(event.kind, Kind::close);
  }(*this));
}

// A sender that is cancelled within a frame leaves the connection unusable.
TEST_F(ChannelTest, ACancelledWriteEndsTheConnection) {
  start({.buffer = 10'000});
  static core::Reactor* clock;
  clock = reactor.get();
  service.script = [](Channel& channel, const Opening&) -> Task<void> {
    {
      core::TaskGroup tasks;
      tasks.spawn([](Channel& to) -> Task<void> {
        (void)co_await to.send(Message::Kind::binary, std::string(500'000, 'x'));
      }(channel));
      co_await core::Sleep(*clock, clock->now() + 1s);
    }
    EXPECT_TRUE(channel.closing());
    const auto message = co_await channel.receive();
    EXPECT_FALSE(message);
  };
  run([](ChannelTest& test) -> Task<void> { EXPECT_TRUE(co_await test.client->open(test.address)); }(*this));
  run_for(10s);
  EXPECT_EQ(service.ended, 1);
  EXPECT_EQ(service.code, CloseCode::abnormal);
}

TEST_F(ChannelTest, APingFloodIsBounded) {
  start({.buffer = 64 * 1024});
  run([](ChannelTest& test) -> Task<void> { EXPECT_TRUE(co_await test.client->open(test.address)); }(*this));
  static std::size_t written;
  written = 0;
  core::TaskGroup tasks;
  tasks.spawn([](ChannelTest& test) -> Task<void> {
    std::string pings;
    for (int i = 0; i < 100; ++i) pings += frame(Opcode::ping, std::string(125, 'p'));
    for (int i = 0; i < 200; ++i) {
      if (!co_await test.client->send(pings)) co_return;
      written += pings.size();
    }
  }(*this));
  run_for(20s);  // the client does not read the pongs
  EXPECT_LE(written, 600'000u);
  run_for(30s);
  EXPECT_EQ(service.ended, 1);
}

// A first fragment of `size` bytes whose message is never completed.
std::string unfinished(std::size_t size) { return frame(Opcode::binary, std::string(size, 'u'), false); }

TEST_F(ChannelTest, UnfinishedMessagesShareTheMemoryOfBodies) {
  server_options.body_memory = 400'000;  // which allows 100,000 for each connection
  start();
  std::vector<std::unique_ptr<Client>> clients;
  run([](ChannelTest& test, std::vector<std::unique_ptr<Client>>& all) -> Task<void> {
    for (int i = 0; i < 4; ++i) {
      all.push_back(std::make_unique<Client>(*test.reactor));
      EXPECT_TRUE(co_await all.back()->open(test.address));
      (void)co_await all.back()->send(unfinished(99'000) + frame(Opcode::ping, "has it come?"));
      EXPECT_EQ((co_await all.back()->next()).kind, Kind::pong);
    }
    EXPECT_EQ(test.server->counters().bodies.held, 396'000u);
    // All messages have grown recently, so none is cut.
    EXPECT_TRUE(co_await test.client->open(test.address));
    (void)co_await test.client->send(unfinished(50'000));
    Event event = co_await test.client->next();
    EXPECT_EQ(event.kind, Kind::close);
    EXPECT_EQ(event.code, CloseCode::try_again_later);
    EXPECT_EQ(test.server->counters().bodies.cut, 0u);
    EXPECT_EQ(test.server->counters().bodies.refused, 1u);

    // The first message has not grown for the longest time, despite the ping. It makes room.
    co_await core::Sleep(*test.reactor, test.reactor->now() + 2s);
    (void)co_await all[0]->send(frame(Opcode::ping, "still here"));
    EXPECT_EQ((co_await all[0]->next()).kind, Kind::pong);
    Client late(*test.reactor);
    EXPECT_TRUE(co_await late.open(test.address));
    (void)co_await late.send(unfinished(50'000) + frame(Opcode::continuation, "end"));
    EXPECT_EQ((co_await late.next()).data.size(), 50'003u);
    event = co_await all[0]->next();
    EXPECT_EQ(event.kind, Kind::close);
    EXPECT_EQ(event.code, CloseCode::try_again_later);
    EXPECT_EQ(test.server->counters().bodies.cut, 1u);
    for (int i = 1; i < 4; ++i) {
      (void)co_await all[i]->send(frame(Opcode::continuation, "end"));
      EXPECT_EQ((co_await all[i]->next()).data.size(), 99'003u);
    }
  }(*this, clients));
  clients.clear();
  run_for(30s);
  EXPECT_EQ(server->counters().bodies.held, 0u);
}

// The echo of a message cannot be sent because its peer does not read. Other messages get the memory, and the
// connection is cut.
TEST_F(ChannelTest, WholeMessagesWhosePeersTakeNothingMakeRoom) {
  server_options.body_memory = 400'000;
  start();
  std::vector<std::unique_ptr<Client>> clients;
  run([](ChannelTest& test, std::vector<std::unique_ptr<Client>>& all) -> Task<void> {
    for (int i = 0; i < 4; ++i) {
      all.push_back(std::make_unique<Client>(*test.reactor));
      EXPECT_TRUE(co_await all.back()->open(test.address));
      (void)co_await all.back()->send(unfinished(99'000) + frame(Opcode::continuation, "end"));
    }
    co_await core::Sleep(*test.reactor, test.reactor->now() + 2s);
    EXPECT_GE(test.server->counters().bodies.held, 396'000u);
    EXPECT_TRUE(co_await test.client->open(test.address));
    (void)co_await test.client->send(unfinished(50'000) + frame(Opcode::continuation, "end"));
    EXPECT_EQ((co_await test.client->next()).data.size(), 50'003u);
    EXPECT_EQ(test.server->counters().bodies.cut, 1u);
    EXPECT_EQ((co_await all[0]->next()).kind, Kind::need_more);
    for (int i = 1; i < 4; ++i) EXPECT_EQ((co_await all[i]->next()).data.size(), 99'003u);
  }(*this, clients));
  clients.clear();
  run_for(30s);
  EXPECT_EQ(server->counters().bodies.held, 0u);
}

TEST_F(ChannelTest, AMessageBeyondTheShareOfAConnectionIsTooLarge) {
  server_options.body_memory = 400'000;
  start();
  run([](ChannelTest& test) -> Task<void> {
    EXPECT_TRUE(co_await test.client->open(test.address));
    (void)co_await test.client->send(unfinished(101'000));
    const Event event = co_await test.client->next();
    EXPECT_EQ(event.kind, Kind::close);
    EXPECT_EQ(event.code, CloseCode::too_large);
  }(*this));
}

TEST_F(ChannelTest, AMessageThatDoesNotGrowIsNotKeptByControlFrames) {
  start();
  run([](ChannelTest& test) -> Task<void> {
    Client& client = *test.client;
    EXPECT_TRUE(co_await client.open(test.address));
    // A message may be slow as long as it grows.
    Instant grew{};
    for (int i = 0; i < 4; ++i) {
      co_await core::Sleep(*test.reactor, test.reactor->now() + 25s);
      (void)co_await client.send(frame(i == 0 ? Opcode::text : Opcode::continuation, "more", false));
      grew = test.reactor->now();
    }
    for (;;) {
      (void)co_await client.send(frame(Opcode::ping, "here"));
      const Event event = co_await client.next();
      if (event.kind == Kind::close) {
        EXPECT_EQ(event.code, CloseCode::policy_violation);
        break;
      }
      EXPECT_EQ(event.kind, Kind::pong);
      co_await core::Sleep(*test.reactor, test.reactor->now() + 1s);
      EXPECT_LT(test.reactor->now() - grew, 45s);
      if (test.reactor->now() - grew >= 45s) break;
    }
    EXPECT_GE(test.reactor->now() - grew, 39s);
  }(*this));
}

TEST_F(ChannelTest, CompressionBothWays) {
  options.compression = Compression::connection;
  start();
  run([](ChannelTest& test) -> Task<void> {
    Client& client = *test.client;
    EXPECT_TRUE(co_await client.open(test.address, "Sec-WebSocket-Extensions: permessage-deflate\r\n"));
    EXPECT_NE(client.answer.find("Sec-WebSocket-Extensions: permessage-deflate\r\n"), std::string::npos);
    Deflater deflater(15);
    for (int i = 0; i < 20; ++i) {
      const std::string message = "the same words again and again, number " + std::to_string(i / 2);
      Buffer payload;
      deflater.compress(message, payload, true);
      (void)co_await client.send(frame(Opcode::text, payload.view(), true, true));
      const Event event = co_await client.next();
      EXPECT_EQ(event.data, message);
    }
  }(*this));
  EXPECT_EQ(channels.counters().messages_sent, 20u);
}

// Clients fragment, ping, and compress or not, on a network with all kinds of faults. Each client either gets all its
// echoes in order or loses its connection. TearDown checks that nothing is left afterwards.
TEST_F(ChannelTest, BadWeather) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    options.compression = seed % 3 == 0   ? Compression::off
                          : seed % 3 == 1 ? Compression::message
                                          : Compression::connection;
    service.begun = service.ended = 0;
    core::Faults faults{.short_read = 0.3,
                        .short_write = 0.3,
                        .would_block = 0.2,
                        .split = 0.4,
                        .stall = 0.01,
                        .reset = 0.0005,
                        .vanish = 0.0002,
                        .buffer = 8'000};
    start(faults, seed);
    constexpr int clients = 6;
    int done = 0;
    std::vector<std::unique_ptr<Client>> all;
    core::TaskGroup tasks;
    for (int i = 0; i < clients; ++i) {
      all.push_back(std::make_unique<Client>(*reactor));
      tasks.spawn([](ChannelTest& test, Client& client, std::uint64_t number, int& count) -> Task<void> {
        struct Done {
          int& count;
          ~Done() { ++count; }
        } counted{count};
        std::uint64_t random = number * 0x9e3779b97f4a7c15u + 1;
        const auto below = [&random](std::uint64_t bound) {
          random = random * 6364136223846793005u + 1442695040888963407u;
          return (random >> 33) % bound;
        };
        const bool opened = co_await client.open(test.address, "Sec-WebSocket-Extensions: permessage-deflate\r\n");
        if (!opened) co_return;
        Deflater deflater(15);
        const bool deflates = client.answer.find("permessage-deflate") != std::string::npos;
        const bool keeps = client.answer.find("client_no_context") == std::string::npos;
        std::vector<std::string> expected;
        std::string bytes;
        for (int k = 0; k < 30; ++k) {
          std::string message(below(3) == 0 ? below(30'000) : below(300), static_cast<char>('a' + below(26)));
          expected.push_back(message);
          std::string payload = message;
          const bool compressed = deflates && below(2) == 0;
          if (compressed) {
            Buffer out;
            deflater.compress(message, out, keeps);
            payload = out.view();
          }
          const std::size_t cut = below(payload.size() + 1);
          if (below(2) == 0) {
            bytes += frame(Opcode::text, payload, true, compressed);
          } else {
            bytes += frame(Opcode::text, payload.substr(0, cut), false, compressed) + frame(Opcode::ping, "ping") +
                     frame(Opcode::continuation, payload.substr(cut));
          }
        }
        bytes += close_frame(CloseCode::normal);
        core::TaskGroup sending;
        sending.spawn([](Client& to, std::string all_bytes) -> Task<void> {
          (void)co_await to.send(std::move(all_bytes));
        }(client, std::move(bytes)));
        std::size_t got = 0;
        for (;;) {
          const Event event = co_await client.next();
          if (event.kind == Kind::need_more) {
            EXPECT_TRUE(test.reactor->broken_by_fault(client.stream().handle()));
            break;
          }
          if (event.kind == Kind::pong || event.kind == Kind::ping) continue;
          if (event.kind == Kind::close) {
            EXPECT_EQ(event.code, CloseCode::normal);
            EXPECT_EQ(got, expected.size());
            break;
          }
          EXPECT_TRUE(event.kind == Kind::text && got < expected.size() && event.data == expected[got]) << got;
          ++got;
        }
        sending.cancel();
        client.close();
      }(*this, *all.back(), seed * 100 + static_cast<std::uint64_t>(i), done));
    }
    for (int turns = 0; done < clients && turns < 1'000'000; ++turns) reactor->turn(reactor->now() + 1s);
    ASSERT_EQ(done, clients) << "seed " << seed;
    TearDown();
    server.reset();
  }
}

}  // namespace
}  // namespace sluice::http::websocket
