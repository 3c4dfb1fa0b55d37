#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/back_ends_for_tests.h"

namespace sluice::core {
namespace {

// Properties beyond the contract of all reactors: the io_uring reactor must keep its memory within bounds and hide
// differences of the kernel's interface. epoll passes these tests too.
class Bounds : public OnReactor {
 protected:
  void SetUp() override {
    OnReactor::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(reactor->listen(listener, *Address::parse("127.0.0.1:0"), {}));
    address = *reactor->local_address(listener);
  }
  void TearDown() override {
    for (auto* ends : {&clients, &servers}) {
      for (const auto& end : *ends) reactor->close(*end);
    }
    reactor->close(listener);
  }

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
  // Opens `count` connections. `clients` and `servers` have the ends in the order of opening.
  void join(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<Handle>());
      const auto connected = reactor->connect(*clients.back(), address);
      ASSERT_TRUE(connected);
      if (!*connected) run_until([&] { return clients.back()->may_write; });
      servers.push_back(std::make_unique<Handle>());
      run_until([&] { return *reactor->accept(listener, *servers.back(), nullptr); });
    }
  }
  // Sends until the socket accepts no more.
  std::size_t send(Handle& handle, std::string_view bytes) {
    std::size_t sent = 0;
    while (handle.may_write && sent < bytes.size()) {
      const iovec part{const_cast<char*>(bytes.data() + sent), bytes.size() - sent};
      const Io io = reactor->send(handle, {&part, 1});
      if (!io.ok()) break;
      sent += io.bytes;
    }
    return sent;
  }
  // Reads until the socket has no more.
  std::string read(Handle& handle, std::size_t piece = 5000) {
    std::string all;
    while (handle.may_read) {
      std::string bytes(piece, '\0');
      const Io io = reactor->recv(handle, bytes.data(), bytes.size());
      if (!io.ok() || io.bytes == 0) break;
      all.append(bytes, 0, io.bytes);
    }
    return all;
  }
  void expect_an_exchange(Handle& client, Handle& server) {
    ASSERT_EQ(send(client, "question"), 8u);
    std::string got;
    run_until([&] { return (got += read(server)).size() >= 8; });
    EXPECT_EQ(got, "question");
    ASSERT_EQ(send(server, "answer"), 6u);
    got.clear();
    run_until([&] { return (got += read(client)).size() >= 6; });
    EXPECT_EQ(got, "answer");
  }

  std::unique_ptr<Reactor> reactor = GetParam().make();
  Handle listener;
  Address address;
  std::vector<std::unique_ptr<Handle>> clients, servers;
};

std::string noise(std::size_t size, std::uint32_t seed) {
  std::string result(size, '\0');
  for (char& c : result) {
    seed = seed * 1664525 + 1013904223;
    c = static_cast<char>(seed >> 24);
  }
  return result;
}

TEST_P(Bounds, WhatNobodyReadsStaysWithTheSender) {
  join(1);
  const std::string bytes(4'000'000, 'x');
  std::size_t sent = 0;
  for (int i = 0; i < 50; ++i) {
    sent += send(*clients[0], bytes);
    run_for(2ms);
  }
  // Only the buffers of the two sockets hold bytes, and the system limits their size.
  EXPECT_LT(sent, 50'000'000u);
  EXPECT_FALSE(clients[0]->may_write);
  std::size_t received = 0;
  run_until([&] { return (received += read(*servers[0], 100'000).size()) == sent; });
}

TEST_P(Bounds, ManyThatNobodyReadsLeaveTheOthersWhatTheyNeed) {
  constexpr std::size_t count = 100;
  join(count + 1);
  std::vector<std::string> sent(count);
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string bytes = noise(30'000, static_cast<std::uint32_t>(i));
      sent[i].append(bytes, 0, send(*clients[i], bytes));
    }
    run_for(2ms);
    expect_an_exchange(*clients[count], *servers[count]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::string got;
    run_until([&] { return (got += read(*servers[i])).size() >= sent[i].size(); });
    EXPECT_TRUE(got == sent[i]) << i;
    expect_an_exchange(*clients[i], *servers[i]);
  }
}

TEST_P(Bounds, SmallPiecesThatNobodyReadsAreBoundedToo) {
  join(2);
  std::string sent;
  for (int i = 0; i < 600; ++i) {
    const std::string piece(1, static_cast<char>('a' + i % 26));
    ASSERT_EQ(send(*clients[0], piece), 1u);
    sent += piece;
    reactor->turn(reactor->now());
  }
  expect_an_exchange(*clients[1], *servers[1]);
  std::string got;
  run_until([&] { return (got += read(*servers[0], 7)).size() >= sent.size(); });
  EXPECT_EQ(got, sent);
  expect_an_exchange(*clients[0], *servers[0]);
}

TEST_P(Bounds, BulkAndSmallReadsFollowEachOther) {
  join(1);
  for (std::uint32_t round = 0; round < 20; ++round) {
    const std::string bytes = noise(round % 2 == 0 ? 300'000 : 4096, round);
    std::string got;
    std::size_t sent = 0;
    run_until([&] {
      sent += send(*clients[0], std::string_view(bytes).substr(sent));
      got += read(*servers[0], round % 3 == 0 ? 65'536 : 1000);
      return got.size() == bytes.size();
    });
    EXPECT_TRUE(got == bytes) << round;
    expect_an_exchange(*clients[0], *servers[0]);
  }
}

TEST_P(Bounds, AnEndIsToldBehindBytesThatNobodyReads) {
  join(2);
  const std::string bytes = noise(60'000, 1);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(send(*clients[i], bytes), bytes.size());
  run_for(20ms);
  EXPECT_FALSE(servers[0]->peer_ended);
  reactor->shutdown_write(*clients[0]);
  run_until([&] { return servers[0]->peer_ended; });
  EXPECT_FALSE(servers[0]->failed);
  reactor->reset_on_close(*clients[1]);
  reactor->close(*clients[1]);
  run_until([&] { return servers[1]->failed; });
  // The bytes of the first connection can still be read.
  std::string got;
  run_until([&] { return (got += read(*servers[0])).size() >= bytes.size(); });
  EXPECT_TRUE(got == bytes);
  char byte = 0;
  const Io end = reactor->recv(*servers[0], &byte, 1);
  EXPECT_TRUE(end.ok() && end.bytes == 0);
}

TEST_P(Bounds, AWriterToAHalfClosedPeerSleepsUntilThereIsRoom) {
  join(1);
  reactor->shutdown_write(*clients[0]);
  run_until([&] { return servers[0]->peer_ended; });
  const std::string bytes(4'000'000, 'x');
  std::size_t sent = 0;
  for (int i = 0; i < 20 && servers[0]->may_write; ++i) {
    sent += send(*servers[0], bytes);
    run_for(2ms);
  }
  ASSERT_FALSE(servers[0]->may_write);
  run_for(20ms);
  int turns = 0;
  for (const Instant end = reactor->now() + 200ms; reactor->now() < end; ++turns) reactor->turn(end);
  EXPECT_LT(turns, 50) << "it is woken for nothing";
  std::size_t received = 0;
  run_until([&] {
    received += read(*clients[0], 100'000).size();
    return servers[0]->may_write;
  });
  run_until([&] { return (received += read(*clients[0], 100'000).size()) == sent; });
}

TEST_P(Bounds, WhoeverWaitsToBeAcceptedIsAcceptedInTheEnd) {
  constexpr std::size_t count = 300;
  Handle first;
  (void)reactor->accept(listener, first, nullptr);  // the reactor now accepts connections
  for (std::size_t i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Handle>());
    ASSERT_TRUE(reactor->connect(*clients.back(), address));
    if (i % 50 == 0) run_for(1ms);
  }
  run_for(20ms);
  while (servers.size() < count) {
    servers.push_back(std::make_unique<Handle>());
    run_until([&] { return *reactor->accept(listener, *servers.back(), nullptr); });
  }
  for (const std::size_t i : {std::size_t{0}, count - 1}) {
    run_until([&] { return clients[i]->may_write; });
    ASSERT_EQ(send(*clients[i], "x"), 1u);
  }
  std::size_t heard = 0;
  run_until([&] {
    for (const auto& server : servers) heard += read(*server).size();
    return heard == 2;
  });
}

TEST_P(Bounds, WhereDescriptorsRunOutWhoConnectsWaits) {
  run_for(1ms);
  clients.push_back(std::make_unique<Handle>());
  ASSERT_TRUE(reactor->connect(*clients[0], address));
  run_until([&] { return clients[0]->may_write; });
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Handle server;
  int error = 0;
  run_until([&] {
    const auto accepted = reactor->accept(listener, server, nullptr);
    error = accepted ? 0 : accepted.error().detail;
    return error != 0;
  });
  EXPECT_EQ(error, EMFILE);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  run_until([&] {
    const auto accepted = reactor->accept(listener, server, nullptr);
    return accepted && *accepted;
  });
  reactor->close(server);
}

TEST_P(Bounds, AnOperationNeverMeetsTheNextOwnerOfADescriptor) {
  join(1);
  for (int i = 0; i < 2000; ++i) {
    // The client is closed in the turn in which it was opened, or in the next one.
    Handle client;
    ASSERT_TRUE(reactor->connect(client, address));
    if (i % 3 == 0) reactor->turn(reactor->now());
    reactor->close(client);
    Handle server;
    const auto accepted = reactor->accept(listener, server, nullptr);
    if (i % 5 == 0) reactor->turn(reactor->now());
    if (accepted && *accepted) reactor->close(server);
  }
  expect_an_exchange(*clients[0], *servers[0]);
}

TEST_P(Bounds, TheEndOfAReactorClosesWhatWasClosed) {
  std::unique_ptr<Reactor> other = GetParam().make();
  Handle client;
  ASSERT_TRUE(other->connect(client, address));
  servers.push_back(std::make_unique<Handle>());
  run_until([&] { return *reactor->accept(listener, *servers[0], nullptr); });
  other->turn(other->now());
  other->close(client);
  other.reset();
  run_until([&] { return servers[0]->peer_ended; });
}

TEST_P(Bounds, WakeUpsComeThroughHoweverManyThereAre) {
  for (int i = 0; i < 10'000; ++i) reactor->wake();
  for (int i = 0; i < 3; ++i) {
    const Instant before = reactor->now();
    reactor->wake();
    reactor->turn(before + 10s);
    EXPECT_LT(reactor->now(), before + 5s);
    run_for(1ms);
  }
}

INSTANTIATE_TEST_SUITE_P(BackEnds, Bounds, testing::Values(on_epoll, on_uring), name_of);

}  // namespace
}  // namespace sluice::core
