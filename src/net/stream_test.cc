#include "net/stream.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/back_ends_for_tests.h"
#include "core/simulated_reactor.h"
#include "core/sleep.h"

namespace sluice::net {
namespace {

using core::Task;
using core::TaskGroup;

class StreamTest : public core::OnReactor {
 public:
  void SetUp() override {
    OnReactor::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(reactor->listen(listener, *core::Address::parse("127.0.0.1:0"), {}));
    address = *reactor->local_address(listener);
  }
  void TearDown() override { reactor->close(listener); }

  void run_until(const bool& done) {
    for (int turns = 0; !done && turns < 100000; ++turns) reactor->turn(reactor->now() + 10ms);
    ASSERT_TRUE(done) << "the loop did not finish";
  }
  Task<void> accept_one(Stream& into) {
    for (;;) {
      auto accepted = reactor->accept(listener, into.handle(), nullptr);
      EXPECT_TRUE(accepted);
      if (!accepted || *accepted) co_return;
      Deadline forever(*reactor);
      Listening waiting(listener, forever);
      co_await waiting;
    }
  }
  struct Listening : Operation<Listening> {
    Listening(core::Handle& handle, Deadline& forever) : Operation(handle, handle.reader, forever) {}
    bool attempt() noexcept { return handle_.may_read; }
    bool time_out() noexcept { return true; }
    Instant until() const noexcept { return never; }
    void await_resume() noexcept {}
  };

  std::unique_ptr<core::Reactor> reactor = GetParam().make();
  core::Handle listener;
  core::Address address;
  TaskGroup tasks;
};

TEST_P(StreamTest, MegabytesArriveWholeThroughSmallReads) {
  bool done = false;
  const std::string sent(3'000'000, 'x');
  std::size_t received = 0;
  tasks.spawn([](StreamTest& test, const std::string& bytes) -> Task<void> {
    Stream server(*test.reactor);
    co_await test.accept_one(server);
    iovec parts[2] = {{const_cast<char*>(bytes.data()), 1000}, {const_cast<char*>(bytes.data()), bytes.size()}};
    EXPECT_TRUE(co_await server.write(parts, 5s));
  }(*this, sent));
  tasks.spawn([](StreamTest& test, std::size_t& count, bool& finished) -> Task<void> {
    Stream client(*test.reactor);
    EXPECT_TRUE(co_await client.connect(test.address, test.reactor->now() + 5s));
    Buffer buffer;
    for (;;) {
      auto got = co_await client.read(buffer, 7001, test.reactor->now() + 5s);
      EXPECT_TRUE(got);
      if (!got || *got == 0) break;
      EXPECT_LE(*got, 7001u);
      count += buffer.size();
      buffer.clear();
    }
    finished = true;
  }(*this, received, done));
  run_until(done);
  EXPECT_EQ(received, sent.size() + 1000);
}

TEST_P(StreamTest, AReadEndsAtItsDeadlineAndCanBeCancelled) {
  bool done = false;
  tasks.spawn([](StreamTest& test, bool& finished) -> Task<void> {
    Stream client(*test.reactor);
    EXPECT_TRUE(co_await client.connect(test.address, test.reactor->now() + 5s));
    Buffer buffer;
    auto got = co_await client.read(buffer, 100, test.reactor->now() + 20ms);
    EXPECT_EQ(got, fail(Errc::timed_out));
    EXPECT_EQ(buffer.capacity(), 0u) << "waiting must cost no memory";
    finished = true;
    co_await client.read(buffer, 100, never);  // cancelled with the group
    ADD_FAILURE() << "nothing can arrive";
  }(*this, done));
  run_until(done);
  EXPECT_EQ(tasks.size(), 1u);
  tasks.cancel();
}

TEST_P(StreamTest, ConnectingToNobodyFails) {
  bool done = false;
  reactor->close(listener);
  tasks.spawn([](StreamTest& test, bool& finished) -> Task<void> {
    Stream client(*test.reactor);
    auto connected = co_await client.connect(test.address, test.reactor->now() + 5s);
    EXPECT_EQ(connected, fail(Errc::system, ECONNREFUSED));
    finished = true;
  }(*this, done));
  run_until(done);
}

TEST_P(StreamTest, AWriteThatNobodyReadsRunsIntoItsDeadline) {
  bool done = false;
  Stream silent(*reactor);
  const std::string bytes(64'000'000, 'x');
  tasks.spawn([](StreamTest& test, Stream& server) -> Task<void> { co_await test.accept_one(server); }(*this, silent));
  tasks.spawn([](StreamTest& test, const std::string& data, bool& finished) -> Task<void> {
    Stream client(*test.reactor);
    EXPECT_TRUE(co_await client.connect(test.address, test.reactor->now() + 5s));
    iovec part{const_cast<char*>(data.data()), data.size()};
    EXPECT_EQ(co_await client.write({&part, 1}, 30ms), Result<void>(fail(Errc::timed_out)));
    finished = true;
  }(*this, bytes, done));
  run_until(done);
}

// Reads up to `most` bytes after each `pause`, until it has `all` bytes or the stream ends.
Task<void> sip(Stream& stream, std::size_t most, Duration pause, std::size_t all, std::size_t& taken) {
  Buffer buffer;
  (void)buffer.reserve(most);
  while (taken < all) {
    co_await core::Sleep(stream.reactor(), stream.reactor().now() + pause);
    auto got = co_await stream.read(buffer, most, never);
    if (!got || *got == 0) co_return;
    taken += *got;
    buffer.clear();
  }
}

// In each `progress` the peer reads too little for the socket's buffer to get room, but is as fast as required.
TEST_P(StreamTest, WhoTakesEnoughIsNotCut) {
  bool done = false;
  Stream slow(*reactor);
  std::size_t taken = 0;
  tasks.spawn([](StreamTest& test, Stream& server, std::size_t& count) -> Task<void> {
    co_await test.accept_one(server);
    co_await sip(server, 60'000, 5ms, 8'000'000, count);
  }(*this, slow, taken));
  const std::string bytes(8'000'000, 'x');
  tasks.spawn([](StreamTest& test, const std::string& data, bool& finished) -> Task<void> {
    Stream client(*test.reactor);
    EXPECT_TRUE(co_await client.connect(test.address, test.reactor->now() + 5s));
    client.set_slowest(1000);
    iovec part{const_cast<char*>(data.data()), data.size()};
    EXPECT_TRUE(co_await client.write({&part, 1}, 200ms));
    finished = true;
  }(*this, bytes, done));
  run_until(done);
  tasks.cancel();
}

TEST_P(StreamTest, WhoTakesTooLittleIsCutAndLosesTheRest) {
  bool cut = false;
  bool done = false;
  std::size_t taken = 0;
  const std::string bytes(64'000'000, 'x');
  tasks.spawn([](StreamTest& test, const bool& was_cut, std::size_t& count, bool& finished) -> Task<void> {
    Stream server(*test.reactor);
    co_await test.accept_one(server);
    while (!was_cut) co_await sip(server, 100, 10ms, count + 1, count);
    Buffer rest;
    (void)rest.reserve(1'000'000);
    for (;;) {
      const auto got = co_await server.read(rest, 1'000'000, never);
      EXPECT_NE(got, Result<std::size_t>(0));  // the end must not look orderly
      if (!got || *got == 0) break;
      count += *got;
      rest.clear();
    }
    finished = true;
  }(*this, cut, taken, done));
  tasks.spawn([](StreamTest& test, const std::string& data, bool& finished) -> Task<void> {
    Stream client(*test.reactor);
    EXPECT_TRUE(co_await client.connect(test.address, test.reactor->now() + 5s));
    client.set_slowest(1'000'000'000);
    iovec part{const_cast<char*>(data.data()), data.size()};
    EXPECT_EQ(co_await client.write({&part, 1}, 50ms), Result<void>(fail(Errc::timed_out)));
    finished = true;
  }(*this, bytes, cut));
  run_until(cut);
  run_until(done);
}

TEST_P(StreamTest, AWriteThatIsCutEndsAtOnceAndItsPeerCanTell) {
  bool cut = false;
  bool done = false;
  Stream client(*reactor);
  const std::string bytes(64'000'000, 'x');
  tasks.spawn([](StreamTest& test, const bool& was_cut, bool& finished) -> Task<void> {
    Stream server(*test.reactor);
    co_await test.accept_one(server);
    while (!was_cut) co_await core::Sleep(*test.reactor, test.reactor->now() + 1ms);
    Buffer rest;
    (void)rest.reserve(1'000'000);
    for (;;) {
      const auto got = co_await server.read(rest, 1'000'000, never);
      EXPECT_NE(got, Result<std::size_t>(0));
      if (!got || *got == 0) break;
      rest.clear();
    }
    finished = true;
  }(*this, cut, done));
  tasks.spawn([](StreamTest& test, Stream& stream, const std::string& data, bool& finished) -> Task<void> {
    EXPECT_TRUE(co_await stream.connect(test.address, test.reactor->now() + 5s));
    EXPECT_FALSE(stream.is_cut());
    iovec part{const_cast<char*>(data.data()), data.size()};
    EXPECT_EQ(co_await stream.write({&part, 1}, 1h), Result<void>(fail(Errc::closed)));
    EXPECT_TRUE(stream.is_cut());
    stream.close();
    finished = true;
  }(*this, client, bytes, cut));
  for (int turns = 0; turns < 10; ++turns) reactor->turn(reactor->now() + 5ms);
  ASSERT_TRUE(client.open());
  client.cut();
  EXPECT_FALSE(cut) << "not before the next turn";
  reactor->turn(reactor->now() + 5ms);
  reactor->turn(reactor->now() + 5ms);
  EXPECT_TRUE(cut);
  run_until(done);
}

TEST_P(StreamTest, NothingOutlastsACut) {
  bool done = false;
  Stream server(*reactor);
  Stream client(*reactor);
  tasks.spawn([](StreamTest& test, Stream& stream) -> Task<void> {
    co_await test.accept_one(stream);
    iovec part{const_cast<char*>("ab"), 2};
    EXPECT_TRUE(co_await stream.write({&part, 1}, 5s));
  }(*this, server));
  tasks.spawn([](StreamTest& test, Stream& stream, bool& finished) -> Task<void> {
    EXPECT_TRUE(co_await stream.connect(test.address, test.reactor->now() + 5s));
    Buffer bytes;
    while (bytes.size() < 2) (void)co_await stream.read(bytes, 2, never);
    // The deadline has passed, and then an edge without new bytes arrives.
    struct Waiting : Operation<Waiting> {
      Waiting(Stream& on, Deadline& deadline) : Operation(on.handle(), on.handle().reader, deadline) {}
      bool attempt() noexcept { return false; }
      bool time_out() noexcept { return true; }
      Instant until() const noexcept { return never; }
      void await_resume() noexcept {}
      void wake() noexcept { try_again(); }
    };
    Deadline deadline(*test.reactor);
    Waiting waiting(stream, deadline);
    test.tasks.spawn([](core::Reactor& on, Waiting& waits, Deadline& its) -> Task<void> {
      co_await core::Sleep(on, on.now() + 1ms);
      its.come();
      waits.wake();
    }(*test.reactor, waiting, deadline));
    co_await waiting;

    stream.cut();
    EXPECT_EQ(co_await stream.read(bytes, 2, never), fail(Errc::timed_out));
    EXPECT_EQ(co_await stream.readable(never), Result<void>(fail(Errc::timed_out)));
    std::string data(64'000'000, 'x');
    iovec part{data.data(), data.size()};
    EXPECT_EQ(co_await stream.write({&part, 1}, 1h), Result<void>(fail(Errc::closed)));
    finished = true;
  }(*this, client, done));
  run_until(done);
}

TEST_P(StreamTest, AFileFollowsItsHead) {
  bool done = false;
  std::string received;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  const std::string bytes(3'000'000, 'f');
  ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file.get()), bytes.size());
  std::fflush(file.get());
  tasks.spawn([](StreamTest& test, int fd) -> Task<void> {
    Stream server(*test.reactor);
    co_await test.accept_one(server);
    EXPECT_TRUE(co_await server.send_file("head of nothing", fd, 0, 0, 5s));
    EXPECT_TRUE(co_await server.send_file("head", fd, 10, 2'999'990, 5s));
    EXPECT_EQ(co_await server.send_file("", fd, 2'999'999, 2, 5s), Result<void>(fail(Errc::closed, EPIPE)));
  }(*this, ::fileno(file.get())));
  tasks.spawn([](StreamTest& test, std::string& into, bool& finished) -> Task<void> {
    Stream client(*test.reactor);
    EXPECT_TRUE(co_await client.connect(test.address, test.reactor->now() + 5s));
    Buffer buffer;
    for (;;) {
      auto got = co_await client.read(buffer, 100'000, test.reactor->now() + 5s);
      EXPECT_TRUE(got);
      if (!got || *got == 0) break;
      into += buffer.view();
      buffer.clear();
    }
    finished = true;
  }(*this, received, done));
  run_until(done);
  EXPECT_TRUE(received == "head of nothinghead" + bytes.substr(0, 2'999'991)) << received.size();
}

TEST_P(StreamTest, WhoeverWatchesIsToldOfBytesOfTheDeadlineAndOfARecall) {
  struct Watcher final : Stream::Watch {
    explicit Watcher(Stream& stream) : Watch(stream) {}
    ~Watcher() { unwatch(); }
    using Watch::recall;
    using Watch::watch;
    using Watch::Woken;
    void woken(Woken reason) override { why.push_back(reason); }
    std::vector<Woken> why;
  };
  using Woken = Watcher::Woken;
  bool done = false;
  Stream server(*reactor);
  tasks.spawn([](StreamTest& test, Stream& into) -> Task<void> { co_await test.accept_one(into); }(*this, server));
  tasks.spawn([](StreamTest& test, Stream& stream, bool& finished) -> Task<void> {
    Stream client(*test.reactor);
    EXPECT_TRUE(co_await client.connect(test.address, test.reactor->now() + 5s));
    while (!stream.open()) co_await core::Sleep(*test.reactor, test.reactor->now() + 1ms);
    Watcher watcher(stream);
    Buffer buffer;
    // At first, nothing is known to be readable.
    while (!watcher.watch(test.reactor->now() + 20ms)) {
      Stream::Read reading = stream.read(buffer, 100, never);
      EXPECT_FALSE(reading.attempt());
    }
    EXPECT_TRUE(watcher.watching());
    while (watcher.why.empty()) co_await core::Sleep(*test.reactor, test.reactor->now() + 5ms);
    EXPECT_EQ(watcher.why, std::vector{Woken::late});
    EXPECT_FALSE(watcher.watching());

    EXPECT_TRUE(watcher.watch(never));
    watcher.recall();
    EXPECT_EQ(watcher.why, (std::vector{Woken::late, Woken::recalled}));

    EXPECT_TRUE(watcher.watch(never));
    char text[] = "word";
    iovec part{text, 4};
    EXPECT_TRUE(co_await client.write({&part, 1}, 5s));
    while (watcher.watching()) co_await core::Sleep(*test.reactor, test.reactor->now() + 1ms);
    EXPECT_EQ(watcher.why.back(), Woken::readable);
    EXPECT_FALSE(watcher.watch(never));
    EXPECT_EQ(watcher.why.size(), 3u);
    finished = true;
  }(*this, server, done));
  run_until(done);
}

// The peers accept everything at once, so only the shares limit how much is sent in a turn.
TEST(StreamShares, LongFilesGoSideBySideAndLeaveTheCoreToOthers) {
  constexpr std::uint64_t share = Stream::SendFile::share_bytes;
  constexpr std::size_t file_bytes = 7 * share / 2;  // four shares
  core::SimulatedReactor reactor(3, {.min_delay = 1us, .max_delay = 1us, .buffer = 64 << 20});
  core::Handle listener;
  ASSERT_TRUE(reactor.listen(listener, *core::Address::parse("127.0.0.1:0"), {}));
  const core::Address address = *reactor.local_address(listener);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  ASSERT_EQ(::ftruncate(::fileno(file.get()), static_cast<off_t>(file_bytes)), 0);

  constexpr std::size_t downloads = 2;
  std::vector<std::unique_ptr<Stream>> clients;
  std::vector<std::unique_ptr<Stream>> servers;
  for (std::size_t i = 0; i <= downloads; ++i) {
    clients.push_back(std::make_unique<Stream>(reactor));
    servers.push_back(std::make_unique<Stream>(reactor));
    ASSERT_TRUE(reactor.connect(clients[i]->handle(), address));
    for (int turns = 0; turns < 1000 && !(servers[i]->open() && clients[i]->handle().may_write); ++turns) {
      reactor.turn(reactor.now() + 1ms);
      if (!servers[i]->open()) ASSERT_TRUE(reactor.accept(listener, servers[i]->handle(), nullptr));
    }
  }

  TaskGroup tasks;
  std::size_t done = 0;
  for (std::size_t i = 0; i < downloads; ++i) {
    tasks.spawn([](Stream& server, int fd, std::size_t& count) -> Task<void> {
      EXPECT_TRUE(co_await server.send_file("", fd, 0, file_bytes, 5s));
      ++count;
    }(*servers[i], ::fileno(file.get()), done));
  }
  // The bytes of a third peer must be read at once, even though two downloads keep the core busy.
  std::size_t heard = 0;
  tasks.spawn([](Stream& server, std::size_t& count) -> Task<void> {
    Buffer word;
    for (;; ++count) {
      word.clear();
      const auto got = co_await server.read(word, 100, never);
      if (!got || *got == 0) co_return;
    }
  }(*servers[downloads], heard));

  for (std::size_t turn = 1; done < downloads; ++turn) {
    ASSERT_LE(turn, 10u);
    for (std::size_t i = 0; i < downloads; ++i) {
      EXPECT_EQ(servers[i]->handle().sent, std::min<std::uint64_t>(turn * share, file_bytes)) << "turn " << turn;
    }
    char byte = 'x';
    iovec part{&byte, 1};
    EXPECT_TRUE(reactor.send(clients[downloads]->handle(), {&part, 1}).ok());
    EXPECT_TRUE(reactor.send(clients[0]->handle(), {&part, 1}).ok());  // must not make its share larger
    const Instant before = reactor.now();
    reactor.turn(never);
    EXPECT_LT(reactor.now(), before + 1ms) << "it waited for the peers, who had nothing to say";
    EXPECT_GE(heard + 1, turn);  // a turn may serve only some of the ready handles
  }
  EXPECT_EQ(servers[0]->handle().sent, file_bytes);
  EXPECT_EQ(servers[1]->handle().sent, file_bytes);
  tasks.cancel();
  reactor.close(listener);
}

TEST(StreamShares, AFileThatWaitsForItsTurnCanBeCancelled) {
  core::SimulatedReactor reactor(4, {.buffer = 64 << 20});
  core::Handle listener;
  ASSERT_TRUE(reactor.listen(listener, *core::Address::parse("127.0.0.1:0"), {}));
  Stream client(reactor);
  Stream server(reactor);
  ASSERT_TRUE(reactor.connect(client.handle(), *reactor.local_address(listener)));
  for (int turns = 0; !server.open() && turns < 1000; ++turns) {
    reactor.turn(reactor.now() + 1ms);
    ASSERT_TRUE(reactor.accept(listener, server.handle(), nullptr));
  }
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  ASSERT_EQ(::ftruncate(::fileno(file.get()), 10 << 20), 0);
  TaskGroup tasks;
  tasks.spawn([](Stream& stream, int fd) -> Task<void> {
    (void)co_await stream.send_file("", fd, 0, 10 << 20, 5s);
    ADD_FAILURE() << "cancelled";
  }(server, ::fileno(file.get())));
  EXPECT_EQ(server.handle().sent, Stream::SendFile::share_bytes);
  tasks.cancel();
  for (int turns = 0; turns < 5; ++turns) reactor.turn(reactor.now() + 1ms);
  EXPECT_EQ(server.handle().sent, Stream::SendFile::share_bytes);
  reactor.close(listener);
}

// A rough network must differ from a smooth one only in the time that it takes.
INSTANTIATE_TEST_SUITE_P(BackEnds, StreamTest,
                         testing::Values(core::on_epoll, core::on_uring,
                                         core::TestedReactor{"simulated",
                                                             []() -> std::unique_ptr<core::Reactor> {
                                                               return std::make_unique<core::SimulatedReactor>(1);
                                                             }},
                                         core::TestedReactor{"simulated_rough",
                                                             []() -> std::unique_ptr<core::Reactor> {
                                                               return std::make_unique<core::SimulatedReactor>(
                                                                   2, core::Faults{.short_read = 0.3,
                                                                                   .short_write = 0.3,
                                                                                   .would_block = 0.3,
                                                                                   .split = 0.3});
                                                             }}),
                         core::name_of);

}  // namespace
}  // namespace sluice::net
