#include "core/simulated_reactor.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/back_ends_for_tests.h"

namespace sluice::core {
namespace {

// One end of a connection. It tries an operation while the flag for it is set, and otherwise waits for an edge.
class Endpoint {
 public:
  explicit Endpoint(Reactor& reactor) : reactor_(reactor), reader_(*this), writer_(*this) {}
  ~Endpoint() { close(); }

  void start() {
    handle.reader = &reader_;
    handle.writer = &writer_;
    read();
    write();
  }
  void close() {
    handle.reader = handle.writer = nullptr;
    reactor_.close(handle);
  }
  void send(std::string_view bytes) {
    unsent_ += bytes;
    write();
  }
  void end() {
    end_wanted_ = true;
    write();
  }

  Handle handle;
  std::string received;
  std::size_t read_size = 4096;
  std::function<void()> on_read;  // after each round of reading
  bool ended = false;
  int read_error = 0;
  int write_error = 0;
  int wake_ups = 0;
  [[nodiscard]] bool all_sent() const { return unsent_.empty(); }

 private:
  struct Reader : Waiter {
    explicit Reader(Endpoint& end)
        : Waiter([](Waiter& waiter) noexcept {
            Endpoint& self = static_cast<Reader&>(waiter).end;
            ++self.wake_ups;
            self.read();
          }),
          end(end) {}
    Endpoint& end;
  };
  struct Writer : Waiter {
    explicit Writer(Endpoint& end)
        : Waiter([](Waiter& waiter) noexcept { static_cast<Writer&>(waiter).end.write(); }), end(end) {}
    Endpoint& end;
  };

  void read() {
    while (handle.open() && handle.may_read && !ended && read_error == 0) {
      std::string piece(read_size, '\0');
      const Io io = reactor_.recv(handle, piece.data(), piece.size());
      if (io.would_block()) break;
      if (!io.ok()) {
        read_error = io.error;
      } else if (io.bytes == 0) {
        ended = true;
      } else {
        received.append(piece, 0, io.bytes);
      }
    }
    if (on_read) on_read();
  }
  void write() {
    while (handle.open() && handle.may_write && !unsent_.empty() && write_error == 0) {
      const std::size_t half = unsent_.size() / 2;
      const iovec parts[2] = {{unsent_.data(), half}, {unsent_.data() + half, unsent_.size() - half}};
      const Io io = reactor_.send(handle, parts);
      if (io.would_block()) break;
      if (io.ok()) {
        unsent_.erase(0, io.bytes);
      } else {
        write_error = io.error;
      }
    }
    if (handle.open() && end_wanted_ && unsent_.empty() && write_error == 0) {
      end_wanted_ = false;
      reactor_.shutdown_write(handle);
    }
  }

  Reactor& reactor_;
  Reader reader_;
  Writer writer_;
  std::string unsent_;
  bool end_wanted_ = false;
};

std::string noise(std::size_t size, std::uint32_t seed = 1) {
  std::string result(size, '\0');
  for (char& c : result) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return result;
}

// Faults that delay and split bytes but end no connection.
Faults rough_weather() {
  return {.short_read = 0.3, .short_write = 0.3, .would_block = 0.3, .split = 0.3, .stall = 0.01, .buffer = 5000};
}

// The behaviour of a reactor that the program relies on.
class ReactorContract : public OnReactor {
 protected:
  void SetUp() override {
    OnReactor::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(reactor->listen(listener, *Address::parse("127.0.0.1:0"), {}));
    address = *reactor->local_address(listener);
    ASSERT_NE(address.port(), 0);
  }
  void TearDown() override { reactor->close(listener); }

  void run_until(const std::function<bool()>& done) {
    for (int turns = 0; turns < 200'000; ++turns) {
      if (done()) return;
      reactor->turn(reactor->now() + 50ms);
    }
    FAIL() << "this never comes";
  }
  void run_for(Duration time) {
    const Instant end = reactor->now() + time;
    while (reactor->now() < end) reactor->turn(end);
  }
  void accept_into(Handle& handle, Address* peer = nullptr) {
    bool accepted = false;
    run_until([&] {
      auto result = reactor->accept(listener, handle, peer);
      EXPECT_TRUE(result);
      accepted = result && *result;
      return accepted || !result;
    });
    ASSERT_TRUE(accepted);
  }
  void connect_from(Handle& handle) {
    auto connected = reactor->connect(handle, address);
    ASSERT_TRUE(connected);
    if (!*connected) {
      run_until([&] { return handle.may_write; });
      ASSERT_TRUE(reactor->connect_result(handle));
    }
  }
  void join(Endpoint& client, Endpoint& server) {
    connect_from(client.handle);
    accept_into(server.handle);
  }

  std::unique_ptr<Reactor> reactor = GetParam().make();
  Handle listener;
  Address address;
};

TEST_P(ReactorContract, EchoesMegabytesInBothDirectionsAtOnce) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  std::size_t echoed = 0;
  server.on_read = [&] {
    const std::string piece = server.received.substr(echoed);
    echoed = server.received.size();
    server.send(piece);
    if (server.ended) server.end();
  };
  server.read_size = 1000;
  client.start();
  server.start();
  const std::string bytes = noise(1'500'000);
  client.send(bytes);
  client.end();
  run_until([&] { return client.ended || client.read_error != 0; });
  EXPECT_TRUE(client.ended);
  EXPECT_TRUE(client.received == bytes);
}

TEST_P(ReactorContract, AHalfClosedPeerStillGetsItsAnswer) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  client.start();
  server.start();
  client.send("question");
  client.end();
  run_until([&] { return server.ended; });
  EXPECT_EQ(server.received, "question");
  EXPECT_FALSE(server.handle.failed) << "only one direction has ended";
  run_until([&] { return server.handle.peer_ended; });
  server.send("answer");
  server.end();
  run_until([&] { return client.ended; });
  EXPECT_EQ(client.received, "answer");
  run_until([&] { return client.handle.failed && server.handle.failed; });
  EXPECT_EQ(client.read_error, 0) << "an end in both directions is hang-up, but no error";
}

TEST_P(ReactorContract, BytesBeforeTheEndSurviveTheHangUp) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  reactor->shutdown_write(client.handle);
  run_until([&] { return server.handle.peer_ended; });
  server.start();
  server.send("last words");
  server.end();
  run_until([&] { return client.handle.failed; });
  client.start();
  run_until([&] { return client.ended; });
  EXPECT_EQ(client.received, "last words");
}

TEST_P(ReactorContract, SendingAfterOnesOwnEndIsEpipe) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  reactor->shutdown_write(client.handle);
  const iovec part{const_cast<char*>("x"), 1};
  EXPECT_EQ(reactor->send(client.handle, {&part, 1}).error, EPIPE);
}

TEST_P(ReactorContract, AResetIsToldOnceAndThenTheEnd) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  reactor->reset_on_close(server.handle);
  server.close();
  run_until([&] { return client.handle.failed; });
  EXPECT_TRUE(client.handle.peer_ended);
  EXPECT_TRUE(client.handle.may_read);
  EXPECT_TRUE(client.handle.may_write);
  char byte = 0;
  EXPECT_EQ(reactor->recv(client.handle, &byte, 1).error, ECONNRESET);
  const Io again = reactor->recv(client.handle, &byte, 1);
  EXPECT_TRUE(again.ok());
  EXPECT_EQ(again.bytes, 0u);
  const iovec part{&byte, 1};
  EXPECT_EQ(reactor->send(client.handle, {&part, 1}).error, EPIPE);
}

TEST_P(ReactorContract, ASenderLearnsOfAReset) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  reactor->reset_on_close(server.handle);
  server.close();
  run_until([&] { return client.handle.failed; });
  const iovec part{const_cast<char*>("x"), 1};
  EXPECT_EQ(reactor->send(client.handle, {&part, 1}).error, ECONNRESET);
  EXPECT_EQ(reactor->send(client.handle, {&part, 1}).error, EPIPE);
}

TEST_P(ReactorContract, ClosingWithBytesUnreadResetsThePeer) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  client.start();
  client.send("never read");
  run_for(20ms);
  server.close();
  run_until([&] { return client.read_error != 0 || client.ended; });
  EXPECT_EQ(client.read_error, ECONNRESET);
}

TEST_P(ReactorContract, WhoeverSendsToAClosedPeerIsReset) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  server.close();
  client.start();
  run_until([&] { return client.ended; });
  EXPECT_FALSE(client.handle.failed) << "so far it is only an end";
  client.send("too late");
  run_until([&] { return client.handle.failed; });
  client.send("x");
  EXPECT_EQ(client.write_error, EPIPE);
}

TEST_P(ReactorContract, ConnectingToNobodyIsRefused) {
  reactor->close(listener);
  Handle handle;
  const auto connected = reactor->connect(handle, address);
  ASSERT_TRUE(connected);
  ASSERT_FALSE(*connected);
  run_until([&] { return handle.may_write; });
  EXPECT_TRUE(handle.failed);
  EXPECT_EQ(reactor->connect_result(handle), Result<void>(fail(Errc::system, ECONNREFUSED)));
  reactor->close(handle);
}

TEST_P(ReactorContract, NothingCanBeReadOrWrittenBeforeTheConnectionStands) {
  Handle handle;
  ASSERT_EQ(reactor->connect(handle, address), Result<bool>(false));
  EXPECT_FALSE(handle.may_write);
  reactor->close(handle);
}

TEST_P(ReactorContract, ClosingAListenerResetsWhoWaits) {
  Endpoint client(*reactor);
  connect_from(client.handle);
  client.start();
  reactor->close(listener);
  run_until([&] { return client.handle.failed; });
  EXPECT_EQ(client.read_error, ECONNRESET);
}

TEST_P(ReactorContract, AcceptsEveryoneAndTellsWhoTheyAre) {
  Handle clients[5], servers[5];
  for (Handle& client : clients) connect_from(client);
  for (Handle& server : servers) {
    Address peer;
    accept_into(server, &peer);
    EXPECT_EQ(peer.ip(), "127.0.0.1");
    EXPECT_TRUE(std::any_of(std::begin(clients), std::end(clients), [&](const Handle& client) {
      return reactor->local_address(client)->text() == peer.text();
    }));
    EXPECT_EQ(reactor->local_address(server)->text(), address.text());
  }
  Handle nobody;
  EXPECT_EQ(reactor->accept(listener, nobody, nullptr), Result<bool>(false));
  EXPECT_FALSE(listener.may_read);
  Handle late;
  connect_from(late);
  run_until([&] { return listener.may_read; });
  Handle server;
  EXPECT_EQ(reactor->accept(listener, server, nullptr), Result<bool>(true));
  for (Handle& handle : clients) reactor->close(handle);
  for (Handle& handle : servers) reactor->close(handle);
  reactor->close(late);
  reactor->close(server);
}

TEST_P(ReactorContract, TwoListenersOnOnePortHaveToAgree) {
  Handle second;
  EXPECT_EQ(reactor->listen(second, address, {.reuse_port = false}), Result<void>(fail(Errc::system, EADDRINUSE)));
  EXPECT_FALSE(second.open());
  EXPECT_TRUE(reactor->listen(second, address, {.reuse_port = true}));
  reactor->close(second);
}

TEST_P(ReactorContract, WhatIsOnlyBoundRefusesUntilItListens) {
  reactor->close(listener);
  ASSERT_TRUE(reactor->bind(listener, address, true));
  EXPECT_EQ(reactor->local_address(listener)->text(), address.text());
  Handle other;
  EXPECT_TRUE(reactor->bind(other, address, true));
  reactor->close(other);
  Handle early;
  ASSERT_TRUE(reactor->connect(early, address));
  run_until([&] { return early.may_write; });
  EXPECT_EQ(reactor->connect_result(early), Result<void>(fail(Errc::system, ECONNREFUSED)));
  reactor->close(early);
  run_for(5ms);

  ASSERT_TRUE(reactor->start_listening(listener, 10));
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
}

TEST_P(ReactorContract, UnixSocketsConnectAtOnce) {
  const std::string path = testing::TempDir() + "sluice_contract_" + std::to_string(::getpid());
  const Address local = *Address::from_path(path);
  Handle client;
  EXPECT_EQ(reactor->connect(client, local), Result<bool>(fail(Errc::system, ENOENT)));
  Handle local_listener;
  ASSERT_TRUE(reactor->listen(local_listener, local, {}));
  Endpoint from(*reactor), to(*reactor);
  ASSERT_EQ(reactor->connect(from.handle, local), Result<bool>(true));
  run_until([&] { return *reactor->accept(local_listener, to.handle, nullptr); });
  from.start();
  to.start();
  from.send("through a path");
  run_until([&] { return to.received == "through a path"; });
  to.close();
  run_until([&] { return from.ended; });
  reactor->close(local_listener);
  ::unlink(path.c_str());
}

TEST_P(ReactorContract, WhatIsNotReadIsNotAnnouncedAgain) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  struct Counter : Waiter {
    Counter() : Waiter([](Waiter& waiter) noexcept { ++static_cast<Counter&>(waiter).calls; }) {}
    int calls = 0;
  } counter;
  char byte = 0;
  run_for(20ms);  // until the event of the registration has passed
  ASSERT_TRUE(reactor->recv(server.handle, &byte, 1).would_block());
  server.handle.reader = &counter;
  client.start();
  client.send("ab");
  run_until([&] { return counter.calls != 0; });
  EXPECT_EQ(counter.calls, 1);
  ASSERT_EQ(reactor->recv(server.handle, &byte, 1).bytes, 1u);
  EXPECT_TRUE(server.handle.may_read) << "it got all that it asked for: there may be more";
  run_for(30ms);
  EXPECT_EQ(counter.calls, 1) << "an edge without anything new";
  client.send("c");
  run_until([&] { return counter.calls == 2; });
  std::string rest(10, '\0');
  EXPECT_EQ(reactor->recv(server.handle, rest.data(), 10).bytes, 2u);
  EXPECT_FALSE(server.handle.may_read);
  server.handle.reader = nullptr;
}

// The io_uring reactor may still wake the reader during a lull.
TEST_P(ReactorContract, ALullIsQuietUntilItsEndAndThenTellsOfAllThatHasCome) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  run_for(20ms);  // until the events of the registration have passed
  server.start();
  client.start();
  Lull lull(server.handle);
  for (int round = 0; round < 3; ++round) {
    const int before = server.wake_ups;
    const Instant end = reactor->now() + 40ms;
    reactor->begin_lull(lull, 40ms);
    EXPECT_TRUE(lull.pending());
    client.send("a");
    run_for(10ms);
    client.send("b");
    run_for(10ms);
    const bool all_in_it = lull.pending();  // a busy machine may take longer than the lull
    if (!GetParam().is_uring && all_in_it) {
      EXPECT_EQ(server.wake_ups, before);
    }
    run_until([&] { return !lull.pending(); });
    EXPECT_GE(reactor->now(), end);
    if (!all_in_it) reactor->end_lull(lull);
    run_until([&] { return server.received == "ab" || all_in_it; });
    EXPECT_EQ(server.received, "ab");
    server.received.clear();
  }
  // The handle stays quiet until end_lull(), which reports bytes that have arrived meanwhile.
  const int before = server.wake_ups;
  client.send("c");
  run_for(10ms);
  if (!GetParam().is_uring) {
    EXPECT_EQ(server.wake_ups, before);
  }
  reactor->end_lull(lull);
  run_until([&] { return server.received == "c"; });
  client.send("d");
  run_until([&] { return server.received == "cd"; });
}

TEST_P(ReactorContract, ALullInWhichNothingComesEndsToo) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  run_for(20ms);
  server.start();
  client.start();
  Lull lull(server.handle);
  const int before = server.wake_ups;
  reactor->begin_lull(lull, 200us);
  run_until([&] { return !lull.pending(); });
  EXPECT_EQ(server.wake_ups, before + 1);
  EXPECT_FALSE(server.handle.may_read);
  // end_lull() ends a lull at once.
  reactor->begin_lull(lull, 1h);
  reactor->end_lull(lull);
  EXPECT_FALSE(lull.pending());
  reactor->end_lull(lull);
  client.send("a");
  run_until([&] { return server.received == "a"; });
}

TEST_P(ReactorContract, TheEndOfThePeerEndsALull) {
  Endpoint clients[2]{Endpoint(*reactor), Endpoint(*reactor)}, servers[2]{Endpoint(*reactor), Endpoint(*reactor)};
  for (int i = 0; i < 2; ++i) join(clients[i], servers[i]);
  run_for(20ms);
  Lull lulls[2]{Lull(servers[0].handle), Lull(servers[1].handle)};
  const Instant start = reactor->now();
  for (int i = 0; i < 2; ++i) {
    servers[i].start();
    clients[i].start();
    reactor->begin_lull(lulls[i], 1h);
  }
  clients[0].send("the last");
  clients[0].end();
  run_until([&] { return servers[0].ended; });
  EXPECT_EQ(servers[0].received, "the last");
  reactor->reset_on_close(clients[1].handle);
  clients[1].close();
  run_until([&] { return servers[1].read_error != 0; });
  EXPECT_LT(reactor->now(), start + 1h);
  for (Lull& lull : lulls) reactor->end_lull(lull);
}

TEST_P(ReactorContract, LullsEndInTheirOrderAndOneThatIsDestroyedNever) {
  constexpr int count = 4;
  std::vector<std::unique_ptr<Endpoint>> clients, servers;
  std::vector<std::unique_ptr<Lull>> lulls;
  std::vector<int> order;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Endpoint>(*reactor));
    servers.push_back(std::make_unique<Endpoint>(*reactor));
    join(*clients[i], *servers[i]);
  }
  run_for(20ms);
  for (int i = 0; i < count; ++i) {
    servers[i]->start();
    servers[i]->on_read = [&order, i] { order.push_back(i); };
    lulls.push_back(std::make_unique<Lull>(servers[i]->handle));
  }
  const Duration times[] = {3ms, 1ms, 2ms, 2ms};
  for (int i = 0; i < count; ++i) reactor->begin_lull(*lulls[i], times[i]);
  lulls[2].reset();
  run_until([&] { return order.size() == 3; });
  run_for(10ms);
  EXPECT_EQ(order, (std::vector{1, 3, 0}));
  for (const auto& lull : lulls) {
    if (lull) reactor->end_lull(*lull);
  }
}

TEST_P(ReactorContract, RoomIsAnnouncedToWhomeverHasMetTheEndOfIt) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  client.start();
  const std::string bytes = noise(20'000'000);
  client.send(bytes);
  run_for(50ms);
  ASSERT_FALSE(client.handle.may_write);
  ASSERT_FALSE(client.all_sent());
  run_for(50ms);
  EXPECT_FALSE(client.handle.may_write) << "nobody has made room";
  server.read_size = 100'000;
  server.start();
  run_until([&] { return server.received.size() == bytes.size(); });
  EXPECT_TRUE(server.received == bytes);
}

TEST_P(ReactorContract, SendsFiles) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  std::FILE* file = std::tmpfile();
  const std::string bytes = noise(300'000);
  ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  std::fflush(file);
  client.start();
  std::uint64_t offset = 1000;
  run_until([&] {
    while (server.handle.may_write && offset < bytes.size()) {
      const Io io = reactor->send_file(server.handle, ::fileno(file), offset, bytes.size() - offset);
      if (io.would_block()) break;
      EXPECT_TRUE(io.ok());
      offset += io.bytes;
    }
    return offset == bytes.size();
  });
  run_until([&] { return server.handle.may_write; });
  Io io;
  do io = reactor->send_file(server.handle, ::fileno(file), offset, 10);
  while (io.would_block() && (run_for(1ms), true));
  EXPECT_TRUE(io.ok());
  EXPECT_EQ(io.bytes, 0u) << "behind the end of the file";
  run_until([&] { return client.received.size() == bytes.size() - 1000; });
  EXPECT_TRUE(client.received == bytes.substr(1000));
  std::fclose(file);
}

TEST_P(ReactorContract, AReaderMayCloseItselfAndOthersThatAreReady) {
  Endpoint clients[3] = {Endpoint(*reactor), Endpoint(*reactor), Endpoint(*reactor)};
  Endpoint servers[3] = {Endpoint(*reactor), Endpoint(*reactor), Endpoint(*reactor)};
  for (int i = 0; i < 3; ++i) join(clients[i], servers[i]);
  run_for(20ms);
  int calls = 0;
  for (Endpoint& server : servers) {
    server.start();
    server.on_read = [&] {
      ++calls;
      for (Endpoint& each : servers) each.close();
    };
  }
  for (Endpoint& client : clients) {
    client.start();
    client.send("now");
  }
  run_for(30ms);
  EXPECT_EQ(calls, 1);
  for (Endpoint& client : clients) EXPECT_TRUE(client.ended || client.read_error == ECONNRESET);
}

TEST_P(ReactorContract, AHandleCanBeUsedAgainInsideItsOwnDispatch) {
  Endpoint client(*reactor), server(*reactor);
  join(client, server);
  int calls = 0;
  server.start();
  server.on_read = [&] {
    if (server.received.empty() || ++calls > 1) return;
    server.close();
    EXPECT_EQ(reactor->connect(server.handle, address), Result<bool>(false));
    EXPECT_FALSE(server.handle.may_write);
  };
  client.start();
  client.send("now");
  run_until([&] { return calls == 1; });
  run_until([&] { return server.handle.may_write; });
  EXPECT_TRUE(reactor->connect_result(server.handle));
  EXPECT_TRUE(client.ended || client.read_error == ECONNRESET || (run_for(10ms), client.ended));
}

struct Alarm : Timer {
  Alarm(Reactor& reactor, std::vector<int>& log, int id)
      : Timer([](Timer& timer) noexcept {
          auto& self = static_cast<Alarm&>(timer);
          EXPECT_GE(self.reactor.now(), self.when());
          self.log.push_back(self.id);
        }),
        reactor(reactor),
        log(log),
        id(id) {}
  Reactor& reactor;
  std::vector<int>& log;
  int id;
};

TEST_P(ReactorContract, TimersFireInOrderAndNeverEarly) {
  std::vector<int> log;
  Alarm a(*reactor, log, 1), b(*reactor, log, 2), c(*reactor, log, 3), gone(*reactor, log, 4);
  const Instant start = reactor->now();
  reactor->timers().schedule(c, start + 60ms);
  reactor->timers().schedule(gone, start + 20ms);
  reactor->timers().schedule(a, start + 5ms);
  reactor->timers().schedule(b, start + 30ms + 1ns);
  reactor->timers().cancel(gone);
  run_until([&] { return log.size() == 3; });
  EXPECT_EQ(log, (std::vector{1, 2, 3}));
}

TEST_P(ReactorContract, ATurnEndsAtItsDeadline) {
  run_for(5ms);
  const Instant start = reactor->now();
  int turns = 0;
  while (reactor->now() < start + 25ms && turns < 1000) {
    reactor->turn(start + 25ms);
    ++turns;
  }
  EXPECT_LT(turns, 50);
  EXPECT_GE(reactor->now(), start + 25ms);
}

TEST_P(ReactorContract, HooksRunAtTheEndOfTheTurn) {
  struct Hook : TurnHook {
    explicit Hook(std::vector<int>& log)
        : TurnHook([](TurnHook& hook) noexcept { static_cast<Hook&>(hook).log.push_back(2); }), log(log) {}
    std::vector<int>& log;
  };
  std::vector<int> log;
  Hook hook(log);
  struct Asking : Timer {
    Asking(Reactor& reactor, Hook& hook)
        : Timer([](Timer& timer) noexcept {
            auto& self = static_cast<Asking&>(timer);
            self.reactor.at_turn_end(self.hook);
            self.reactor.at_turn_end(self.hook);
            self.hook.log.push_back(1);
          }),
          reactor(reactor),
          hook(hook) {}
    Reactor& reactor;
    Hook& hook;
  } asking(*reactor, hook);
  reactor->timers().schedule(asking, reactor->now() + 1ms);
  run_until([&] { return !log.empty(); });
  EXPECT_EQ(log, (std::vector{1, 2})) << "once, in the turn that asked for it";
}

TEST_P(ReactorContract, WhatIsPutOffUntilTheNextTurnRunsInItOnceAndKeepsItFromWaiting) {
  struct Again : TurnHook {
    Again(Reactor& reactor, int times)
        : TurnHook([](TurnHook& hook) noexcept {
            auto& self = static_cast<Again&>(hook);
            ++self.runs;
            if (self.runs < self.times) {
              self.reactor.at_next_turn(self);
              self.reactor.at_next_turn(self);
            }
          }),
          reactor(reactor),
          times(times) {}
    Reactor& reactor;
    int times;
    int runs = 0;
  };
  run_for(5ms);
  Again thrice(*reactor, 3);
  Again once(*reactor, 1);
  auto gone = std::make_unique<Again>(*reactor, 1);
  reactor->at_next_turn(thrice);
  reactor->at_next_turn(*gone);
  gone.reset();
  const Instant before = reactor->now();
  reactor->turn(before + 10s);
  EXPECT_EQ(thrice.runs, 1);
  reactor->at_next_turn(once);
  reactor->turn(before + 10s);
  EXPECT_TRUE(thrice.pending());
  EXPECT_LT(reactor->now(), before + 5s) << "it has not waited";
  run_until([&] { return !thrice.pending() && !once.pending(); });
  EXPECT_EQ(thrice.runs, 3);
  EXPECT_EQ(once.runs, 1);
}

// A turn takes a bounded time, however many hooks are deferred.
TEST_P(ReactorContract, WhatIsPutOffTakesItsTimeOfATurnAndTheRestWaits) {
  struct Long : TurnHook {
    Long(Reactor& reactor, std::vector<int>& log, int word)
        : TurnHook([](TurnHook& hook) noexcept {
            auto& self = static_cast<Long&>(hook);
            self.log.push_back(self.word);
            const Instant end = self.reactor.clock() + Reactor::next_turn_time;
            while (self.reactor.clock() < end) {
            }
          }),
          reactor(reactor),
          log(log),
          word(word) {}
    Reactor& reactor;
    std::vector<int>& log;
    int word;
  };
  if (dynamic_cast<SimulatedReactor*>(reactor.get()) != nullptr) return;  // its clock stands still within a turn
  std::vector<int> log;
  Long first(*reactor, log, 1), second(*reactor, log, 2), third(*reactor, log, 3);
  reactor->at_next_turn(first);
  reactor->at_next_turn(second);
  for (std::size_t turns = 1; turns <= 3; ++turns) {
    reactor->turn(reactor->now() + (turns < 3 ? 10s : 0s));  // the third turn would wait, because no hook is left
    ASSERT_EQ(log.size(), turns);
    if (turns == 1) reactor->at_next_turn(third);
  }
  EXPECT_EQ(log.back(), 3) << "it has asked last";
}

// A hook of at_turn_end() runs in the turn in which it was registered, a hook of at_next_turn() in the following one.
TEST_P(ReactorContract, WhatIsPutOffWaitsForItsTurn) {
  struct Hook : TurnHook {
    Hook(std::vector<int>& log, int word)
        : TurnHook([](TurnHook& hook) noexcept {
            auto& self = static_cast<Hook&>(hook);
            self.log.push_back(self.word);
          }),
          log(log),
          word(word) {}
    std::vector<int>& log;
    int word;
  };
  std::vector<int> log;
  Hook end(log, 1);
  Hook next(log, 2);
  struct Asking : Timer {
    Asking(Reactor& reactor, Hook& end, Hook& next)
        : Timer([](Timer& timer) noexcept {
            auto& self = static_cast<Asking&>(timer);
            self.reactor.at_next_turn(self.next);
            self.reactor.at_turn_end(self.end);
          }),
          reactor(reactor),
          end(end),
          next(next) {}
    Reactor& reactor;
    Hook& end;
    Hook& next;
  } asking(*reactor, end, next);
  reactor->timers().schedule(asking, reactor->now() + 1ms);
  run_until([&] { return !log.empty(); });
  EXPECT_EQ(log, std::vector{1});
  reactor->turn(reactor->now());
  EXPECT_EQ(log, (std::vector{1, 2}));
}

TEST_P(ReactorContract, AWakeUpBeforeTheTurnIsNotLost) {
  run_for(5ms);
  reactor->wake();
  const Instant before = reactor->now();
  reactor->turn(before + 10s);
  EXPECT_LT(reactor->now(), before + 1s);
}

TEST_P(ReactorContract, TheWallClockGoesWithTheOther) {
  const std::int64_t before = reactor->wall_clock_ns();
  EXPECT_GT(before, 1'600'000'000'000'000'000);
  run_for(50ms);
  EXPECT_GE(reactor->wall_clock_ns() - before, 30'000'000);
}

INSTANTIATE_TEST_SUITE_P(BackEnds, ReactorContract,
                         testing::Values(on_epoll, on_uring,
                                         TestedReactor{"simulated",
                                                       []() -> std::unique_ptr<Reactor> {
                                                         return std::make_unique<SimulatedReactor>(1);
                                                       }}),
                         name_of);

// ---- Features of the simulated reactor ----

struct Outcome {
  std::uint64_t history = 0;
  bool finished = false;
  bool is_right = false;
  bool deadlocked = false;
  bool has_failed = false;
  Duration time{};
  SimulatedReactor::Counters counters;
};

// A client sends `bytes` and ends its side. The server sends them back and ends its side too.
Outcome echo(std::uint64_t seed, const Faults& faults, const std::string& bytes) {
  SimulatedReactor reactor(seed, faults);
  const Instant start = reactor.now();
  Handle listener;
  const Address address = *Address::parse("10.0.0.1:80");
  EXPECT_TRUE(reactor.listen(listener, address, {}));
  Outcome run;
  {
    Endpoint client(reactor), server(reactor);
    std::size_t echoed = 0;
    server.on_read = [&] {
      const std::string piece = server.received.substr(echoed);
      echoed = server.received.size();
      server.send(piece);
      if (server.ended) server.end();
    };
    EXPECT_EQ(reactor.connect(client.handle, address), Result<bool>(false));
    bool connected = false;
    for (int turns = 0; turns < 100'000 && !reactor.deadlocked() && !client.ended && client.read_error == 0; ++turns) {
      reactor.turn(never);
      if (!server.handle.open() && listener.may_read) {
        auto accepted = reactor.accept(listener, server.handle, nullptr);
        if (accepted && *accepted) {
          server.start();
        } else if (!accepted) {
          reactor.wake();
        }
      }
      if (!connected && client.handle.may_write) {
        connected = true;
        if (!reactor.connect_result(client.handle)) {
          run.has_failed = true;
          break;
        }
        client.start();
        client.send(bytes);
        client.end();
      }
    }
    run.finished = client.ended;
    run.is_right = client.received == bytes;
    run.has_failed = run.has_failed || client.read_error != 0 || client.write_error != 0;
    run.deadlocked = reactor.deadlocked();
    EXPECT_TRUE(bytes.starts_with(client.received)) << "seed " << seed;
  }
  for (int turns = 0; turns < 1000 && !reactor.deadlocked(); ++turns) reactor.turn(never);
  reactor.close(listener);
  EXPECT_EQ(reactor.open_handles(), 0u);
  run.history = reactor.history();
  run.time = reactor.now() - start;
  run.counters = reactor.counters();
  return run;
}

TEST(SimulatedReactor, TheSameSeedGivesTheSameHistory) {
  const std::string bytes = noise(20'000);
  const Outcome first = echo(7, rough_weather(), bytes);
  const Outcome again = echo(7, rough_weather(), bytes);
  const Outcome other = echo(8, rough_weather(), bytes);
  EXPECT_EQ(first.history, again.history);
  EXPECT_EQ(first.time, again.time);
  EXPECT_NE(first.history, other.history);
}

TEST(SimulatedReactor, RoughWeatherLosesNoByteAndNoEdge) {
  const std::string bytes = noise(30'000);
  SimulatedReactor::Counters sum;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Faults faults = rough_weather();
    if (seed % 3 == 0) faults.buffer = 1 + seed;
    const Outcome run = echo(seed, faults, seed % 3 == 0 ? bytes.substr(0, 500) : bytes);
    ASSERT_TRUE(run.finished) << "seed " << seed << (run.deadlocked ? ": deadlocked" : "");
    if (seed % 3 != 0) {
      ASSERT_TRUE(run.is_right) << "seed " << seed;
    }
    sum.short_reads += run.counters.short_reads;
    sum.short_writes += run.counters.short_writes;
    sum.would_blocks += run.counters.would_blocks;
    sum.stalls += run.counters.stalls;
  }
  EXPECT_GT(sum.short_reads, 1000u);
  EXPECT_GT(sum.short_writes, 1000u);
  EXPECT_GT(sum.would_blocks, 1000u);
  EXPECT_GT(sum.stalls, 100u);
}

TEST(SimulatedReactor, ConnectionsBreakSoThatBothEndsCanTell) {
  Faults faults = rough_weather();
  faults.reset = 0.01;
  faults.refuse = 0.1;
  faults.accept_error = 0.2;
  int broken = 0;
  int whole = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Outcome run = echo(seed, faults, noise(10'000));
    EXPECT_NE(run.has_failed, run.finished && run.is_right) << "seed " << seed;
    ++(run.has_failed ? broken : whole);
  }
  EXPECT_GT(broken, 30);
  EXPECT_GT(whole, 30);
}

TEST(SimulatedReactor, AConnectionThatVanishesIsAWaitWithoutEnd) {
  Faults faults;
  faults.vanish = 1;
  const Outcome run = echo(1, faults, "lost");
  EXPECT_FALSE(run.finished);
  EXPECT_FALSE(run.has_failed) << "nothing tells";
  EXPECT_TRUE(run.deadlocked);
}

TEST(SimulatedReactor, SeesThatNothingCanEverHappen) {
  SimulatedReactor reactor(1);
  EXPECT_TRUE(reactor.deadlocked());
  reactor.turn(never);  // returns instead of blocking forever
  reactor.wake();
  EXPECT_FALSE(reactor.deadlocked());
  reactor.turn(never);
  EXPECT_TRUE(reactor.deadlocked());
  std::vector<int> log;
  Alarm alarm(reactor, log, 1);
  reactor.timers().schedule(alarm, reactor.now() + 24h);
  EXPECT_FALSE(reactor.deadlocked());
  for (int turns = 0; turns < 100 && log.empty(); ++turns) reactor.turn(never);
  EXPECT_EQ(log.size(), 1u) << "a day is a few turns";
  EXPECT_TRUE(reactor.deadlocked());
}

TEST(SimulatedReactor, AConsumerThatReadsTooLittleHangs) {
  SimulatedReactor reactor(1);
  Handle listener;
  const Address address = *Address::parse("127.0.0.1:80");
  ASSERT_TRUE(reactor.listen(listener, address, {}));
  Endpoint client(reactor);
  struct Lazy : Waiter {
    Lazy(Reactor& reactor, Handle& handle)
        : Waiter([](Waiter& waiter) noexcept {
            auto& self = static_cast<Lazy&>(waiter);
            char byte = 0;
            self.count +=
                self.reactor.recv(self.handle, &byte, 1).bytes;  // leaves the rest unread and waits for an edge
          }),
          reactor(reactor),
          handle(handle) {}
    Reactor& reactor;
    Handle& handle;
    std::size_t count = 0;
  };
  Handle server;
  Lazy lazy(reactor, server);
  ASSERT_EQ(reactor.connect(client.handle, address), Result<bool>(false));
  while (!client.handle.may_write) reactor.turn(never);
  ASSERT_EQ(reactor.accept(listener, server, nullptr), Result<bool>(true));
  server.reader = &lazy;
  while (!reactor.deadlocked()) reactor.turn(never);
  client.start();
  client.send("four");
  for (int turns = 0; turns < 1000 && !reactor.deadlocked(); ++turns) reactor.turn(never);
  EXPECT_TRUE(reactor.deadlocked());
  EXPECT_EQ(lazy.count, 1u);
  server.reader = nullptr;
  reactor.close(server);
  reactor.close(listener);
}

TEST(SimulatedReactor, RunningOutOfDescriptorsGivesNoNewEdge) {
  Faults faults;
  faults.accept_error = 1;
  SimulatedReactor reactor(1, faults);
  Handle listener, client, server;
  const Address address = *Address::parse("127.0.0.1:80");
  ASSERT_TRUE(reactor.listen(listener, address, {}));
  EXPECT_EQ(reactor.accept(listener, server, nullptr), Result<bool>(false));
  ASSERT_EQ(reactor.connect(client, address), Result<bool>(false));
  while (!listener.may_read) reactor.turn(never);
  EXPECT_EQ(reactor.accept(listener, server, nullptr), Result<bool>(fail(Errc::system, EMFILE)));
  while (!reactor.deadlocked()) reactor.turn(never);
  EXPECT_TRUE(client.may_write) << "connected, as far as the client knows";
  reactor.set_faults({});
  EXPECT_EQ(reactor.accept(listener, server, nullptr), Result<bool>(true)) << "the connection was still in the queue";
  for (Handle* handle : {&listener, &client, &server}) reactor.close(*handle);
}

TEST(SimulatedReactor, AFullQueueMakesClientsTryAgain) {
  SimulatedReactor reactor(1);
  Handle listener, clients[2], servers[2];
  const Address address = *Address::parse("127.0.0.1:80");
  ASSERT_TRUE(reactor.listen(listener, address, {.backlog = 1}));
  for (Handle& client : clients) ASSERT_EQ(reactor.connect(client, address), Result<bool>(false));
  const Instant start = reactor.now();
  reactor.turn(start + 100ms);
  while (reactor.now() < start + 100ms) reactor.turn(start + 100ms);
  EXPECT_NE(clients[0].may_write, clients[1].may_write);
  EXPECT_EQ(reactor.accept(listener, servers[0], nullptr), Result<bool>(true));
  while (!clients[0].may_write || !clients[1].may_write) {
    ASSERT_FALSE(reactor.deadlocked());
    reactor.turn(never);
  }
  EXPECT_GE(reactor.now(), start + 1s);
  EXPECT_EQ(reactor.accept(listener, servers[1], nullptr), Result<bool>(true));
  for (Handle* handle : {&listener, &clients[0], &clients[1], &servers[0], &servers[1]}) reactor.close(*handle);
}

TEST(SimulatedReactor, NobodyBehindAFullQueueTimesOutAtLast) {
  SimulatedReactor reactor(1);
  Handle listener, clients[2];
  const Address address = *Address::parse("127.0.0.1:80");
  ASSERT_TRUE(reactor.listen(listener, address, {.backlog = 1}));
  for (Handle& client : clients) ASSERT_EQ(reactor.connect(client, address), Result<bool>(false));
  while (!reactor.deadlocked()) reactor.turn(never);
  int timed_out = 0;
  for (Handle& client : clients) {
    EXPECT_TRUE(client.may_write);
    timed_out += reactor.connect_result(client) == Result<void>(fail(Errc::system, ETIMEDOUT));
  }
  EXPECT_EQ(timed_out, 1);
  for (Handle* handle : {&listener, &clients[0], &clients[1]}) reactor.close(*handle);
}

TEST(SimulatedReactor, SpreadsConnectionsOverTheListenersOfAPort) {
  SimulatedReactor reactor(1);
  Handle any, first, second;
  ASSERT_TRUE(reactor.listen(any, *Address::parse("*:81"), {}));
  ASSERT_TRUE(reactor.listen(first, *Address::parse("127.0.0.1:80"), {}));
  ASSERT_TRUE(reactor.listen(second, *Address::parse("127.0.0.1:80"), {}));
  std::vector<std::unique_ptr<Handle>> clients;
  const auto connect_to = [&](const char* where) {
    clients.push_back(std::make_unique<Handle>());
    EXPECT_TRUE(reactor.connect(*clients.back(), *Address::parse(where)));
  };
  for (int i = 0; i < 50; ++i) connect_to("127.0.0.1:80");
  connect_to("192.168.1.1:81");
  connect_to("[::1]:81");
  connect_to("10.0.0.1:80");
  while (!reactor.deadlocked()) reactor.turn(never);
  const auto accept_all = [&](Handle& listener) {
    std::size_t count = 0;
    for (;;) {
      Handle server;
      if (!*reactor.accept(listener, server, nullptr)) return count;
      reactor.close(server);
      ++count;
    }
  };
  const std::size_t at_first = accept_all(first);
  const std::size_t at_second = accept_all(second);
  EXPECT_EQ(at_first + at_second, 50u);
  EXPECT_GT(at_first, 10u);
  EXPECT_GT(at_second, 10u);
  EXPECT_EQ(accept_all(any), 2u);
  EXPECT_TRUE(clients.back()->failed) << "nobody listens there";
  for (auto& client : clients) reactor.close(*client);
  for (Handle* handle : {&any, &first, &second}) reactor.close(*handle);
}

}  // namespace
}  // namespace sluice::core
