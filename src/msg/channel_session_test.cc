#include "msg/channel_session.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"
#include "msg/sessions.h"
#include "net/acceptor.h"
#include "net/stream_duplex.h"

namespace sluice::msg {
namespace {

using core::Task;

constexpr std::uint32_t echo_id = 100;
constexpr std::uint32_t slow_id = 101;

std::string encoded(const Frame& frame) {
  Buffer bytes;
  append_frame(bytes, frame);
  return std::string(bytes.view());
}

// A client's binary message of less than 64 KiB, masked with zeros.
std::string message(std::string_view frames) {
  std::string bytes = "\x82";
  if (frames.size() < 126) {
    bytes += static_cast<char>(0x80 | frames.size());
  } else {
    bytes += static_cast<char>(0x80 | 126);
    bytes += static_cast<char>(frames.size() >> 8);
    bytes += static_cast<char>(frames.size());
  }
  return bytes.append(4, '\0').append(frames);
}

// One client whose connection speaks WebSocket from its first byte.
class ChannelSessionTest : public testing::Test, public net::Acceptor::Owner {
 protected:
  void start(const SessionOptions& options = {}) {
    sessions_ = std::make_unique<Sessions>(reactor_, 0, dispatcher_, nullptr, options);
    dispatcher_.on(echo_id, [](Session& session, const Frame& frame) { session.reply(frame, echo_id, frame.body); });
    dispatcher_.on(slow_id, [this](Session& session, const Frame& frame) { return slow(session, frame); });
    acceptor_.emplace(reactor_, *this, net::AcceptorOptions{});
    const auto address = acceptor_->listen(*core::Address::parse("127.0.0.1:0"));
    ASSERT_TRUE(address);
    tasks_.spawn([](net::Stream& client, core::Address to) -> Task<void> {
      EXPECT_TRUE(co_await client.connect(to, never));
    }(client_, *address));
    pass(10ms);
  }
  ~ChannelSessionTest() override {
    tasks_.cancel();
    conversation_.cancel();
    sessions_.reset();
  }
  Task<void> slow(Session& session, const Frame& frame) {
    struct Running {
      explicit Running(int& of) : count(of) { ++count; }
      Running(const Running&) = delete;
      ~Running() { --count; }
      int& count;
    } running(running_);
    co_await core::Sleep(reactor_, reactor_.now() + 2s);
    session.reply(frame, slow_id, frame.body);
  }
  void send(std::string bytes) {
    tasks_.spawn([](net::Stream& client, std::string text) -> Task<void> {
      iovec part{text.data(), text.size()};
      (void)co_await client.write({&part, 1}, 1h);
    }(client_, std::move(bytes)));
  }
  // Reads until nothing more arrives for `patience`.
  std::string receive(Duration patience = 50ms) {
    std::string text;
    tasks_.spawn([](net::Stream& client, core::Reactor& reactor, Duration time, std::string& into) -> Task<void> {
      Buffer bytes;
      for (;;) {
        const auto got = co_await client.read(bytes, 64 * 1024, reactor.now() + time);
        if (!got || *got == 0) co_return;
        into += bytes.view();
        bytes.clear();
      }
    }(client_, reactor_, patience, text));
    pass(patience + 100ms);
    return text;
  }
  void pass(Duration time) {
    const Instant until = reactor_.now() + time;
    while (reactor_.now() < until && !reactor_.deadlocked()) reactor_.turn(until);
  }

  core::Handle& next_handle() override { return served_.handle(); }
  void accepted(const core::Address&, bool) override { conversation_.spawn(converse()); }
  void dropped(net::Acceptor::Dropped) noexcept override {}
  Task<void> converse() {
    net::StreamDuplex duplex(served_, Buffer());
    ws::Channel channel(duplex, pool_, channel_options_, std::nullopt);
    channel_ = &channel;
    co_await run_session(*sessions_, channel, {.peer = "peer", .path = "/room", .query = "a=1"});
    co_await channel.close();
    served_.close();
  }

  int running_ = 0;                 // handlers that wait
  ws::Channel* channel_ = nullptr;  // of the conversation, while it runs
  core::SimulatedReactor reactor_{5};
  Dispatcher dispatcher_;
  std::unique_ptr<Sessions> sessions_;
  ws::ChannelPool pool_;
  const ws::ChannelOptions channel_options_;
  net::Stream served_{reactor_};
  net::Stream client_{reactor_};
  core::TaskGroup conversation_;
  core::TaskGroup tasks_;
  std::optional<net::Acceptor> acceptor_;
};

TEST_F(ChannelSessionTest, FramesAreMessages) {
  start();
  ASSERT_EQ(sessions_->all().size(), 1u);
  ASSERT_NE(sessions_->all()[0]->handshake(), nullptr);
  EXPECT_EQ(sessions_->all()[0]->handshake()->path, "/room");
  EXPECT_EQ(sessions_->all()[0]->handshake()->query, "a=1");
  const std::string one = encoded({.id = echo_id, .body = bytes_of("one")});
  const std::string two = encoded({.id = echo_id, .body = bytes_of("two")});
  send(message(one + two));
  EXPECT_EQ(receive(), "\x82\x0f" + one + "\x82\x0f" + two);
}

TEST_F(ChannelSessionTest, TheEndOfASessionCancelsItsHandler) {
  start();
  send(message(encoded({.id = slow_id})));
  pass(100ms);
  EXPECT_EQ(running_, 1);
  sessions_->all()[0]->cut(Ended::by_server);
  pass(100ms);
  EXPECT_EQ(running_, 0);
  EXPECT_TRUE(sessions_->all().empty());
}

TEST_F(ChannelSessionTest, ASessionThatClosesLetsItsHandlerEnd) {
  start();
  const std::string frame = encoded({.id = slow_id, .body = bytes_of("done")});
  send(message(frame));
  EXPECT_EQ(receive(), "");
  sessions_->all()[0]->close();
  EXPECT_EQ(receive(3s), "\x82\x10" + frame + std::string("\x88\x02\x03\xe9", 4)) << "the answer, and 1001";
  pass(10s);
  EXPECT_TRUE(conversation_.empty());
  EXPECT_TRUE(sessions_->all().empty());
}

TEST_F(ChannelSessionTest, FramesForAChannelThatDrainsAreDropped) {
  start();
  channel_->drain();
  for (int i = 0; i < 3; ++i) {
    sessions_->all()[0]->send(echo_id, "late");
    pass(10ms);
    ASSERT_EQ(sessions_->all().size(), 1u) << "it waits for the client's close frame";
  }
  EXPECT_EQ(sessions_->all()[0]->queued(), 0u);
  EXPECT_EQ(receive(), std::string("\x88\x02\x03\xe9", 4));
  send(std::string("\x88\x82\0\0\0\0\x03\xe9", 8));
  pass(1s);
  EXPECT_TRUE(sessions_->all().empty());
  EXPECT_TRUE(conversation_.empty());
}

TEST_F(ChannelSessionTest, ACutEndsAConversationWhoseReaderWaitsForRoom) {
  start({.most_queued = 100'000});
  std::string frames;
  for (int i = 0; i < 4; ++i) frames += message(encoded({.id = echo_id, .body = bytes_of(std::string(60'000, 'x'))}));
  send(frames);
  pass(1s);  // the client reads nothing, so the queue fills and the session is not read any more
  ASSERT_EQ(sessions_->all().size(), 1u);
  EXPECT_GT(sessions_->all()[0]->queued(), 50'000u);
  sessions_->all()[0]->cut(Ended::slow);
  pass(1s);
  EXPECT_TRUE(sessions_->all().empty());
  EXPECT_TRUE(conversation_.empty());
}

TEST_F(ChannelSessionTest, ACutInTheTurnThatFillsTheQueue) {
  start({.most_queued = 1000});
  send(message(encoded({.id = echo_id, .body = bytes_of(std::string(900, 'x'))}) + encoded({.id = echo_id})));
  while (sessions_->counters().frames_in == 0) reactor_.turn(never);
  for (Session* session : sessions_->all()) session->cut(Ended::by_server);
  pass(1s);
  EXPECT_TRUE(sessions_->all().empty());
  EXPECT_TRUE(conversation_.empty());
}

// At some of these times the reader waits for room, and the write that makes room also finds that the client has left.
class ClientThatLeaves : public ChannelSessionTest, public testing::WithParamInterface<int> {};

TEST_P(ClientThatLeaves, WhileTheReaderWaitsForRoom) {
  start({.most_queued = 4000});
  std::string frames;
  for (int i = 0; i < 60; ++i) frames += encoded({.id = echo_id, .body = bytes_of(std::string(900, 'x'))});
  send(message(frames));
  std::size_t received = 0;
  tasks_.spawn([](net::Stream& client, std::size_t& count, std::size_t most) -> Task<void> {
    Buffer bytes;
    while (count < most) {
      const auto got = co_await client.read(bytes, 1000, never);
      if (!got || *got == 0) co_return;
      count += *got;
      bytes.clear();
    }
  }(client_, received, static_cast<std::size_t>(GetParam()) * 1000));
  pass(1s);
  tasks_.cancel();
  if (GetParam() % 2 == 0) reactor_.reset_on_close(client_.handle());
  client_.close();
  pass(10s);
  EXPECT_TRUE(sessions_->all().empty());
  EXPECT_TRUE(conversation_.empty());
}

INSTANTIATE_TEST_SUITE_P(Thousands, ClientThatLeaves, testing::Range(0, 60));

class ClientThatIsGone : public ChannelSessionTest, public testing::WithParamInterface<bool> {};

TEST_P(ClientThatIsGone, WhileItsHandlerWaits) {
  start();
  send(message(encoded({.id = slow_id})));
  pass(100ms);
  EXPECT_EQ(running_, 1);
  tasks_.cancel();
  if (GetParam()) reactor_.reset_on_close(client_.handle());
  client_.close();
  pass(100ms);
  EXPECT_EQ(running_, 0);
  pass(10s);
  EXPECT_TRUE(sessions_->all().empty());
  EXPECT_TRUE(conversation_.empty());
}

INSTANTIATE_TEST_SUITE_P(Reset, ClientThatIsGone, testing::Bool());

TEST_F(ChannelSessionTest, MoreMessagesThanOneClientMaySend) {
  start({.message_interval = 1s, .message_burst = 2});
  const std::string one = encoded({.id = echo_id, .body = bytes_of("one")});
  send(message(one + one) + message(one + one));
  const std::string got = receive();
  const std::string echoes = "\x82\x0f" + one + "\x82\x0f" + one;
  EXPECT_TRUE(got.starts_with(echoes));
  EXPECT_TRUE(got.ends_with(std::string("\x88\x02\x11\x4d", 4))) << "4429";
}

}  // namespace
}  // namespace sluice::msg
