#include "net/acceptor.h"

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/back_ends_for_tests.h"
#include "core/bound_socket.h"
#include "core/simulated_reactor.h"
#include "net/stream.h"

namespace sluice::net {
namespace {

using core::Task;

// Keeps the accepted connections open.
class TestOwner final : public Acceptor::Owner {
 public:
  explicit TestOwner(core::Reactor& reactor) : reactor_(reactor) {}

  core::Handle& next_handle() override {
    if (!prepared_) {
      ++prepared;
      prepared_ = std::make_unique<Stream>(reactor_);
    }
    return prepared_->handle();
  }
  void accepted(const core::Address& peer, bool secure) override {
    if (std::exchange(out_of_memory, false)) throw std::bad_alloc();
    open.push_back(std::move(prepared_));
    (secure ? secure_peers : peers).push_back(peer);
  }
  void dropped(Acceptor::Dropped why) noexcept override {
    ++(why == Acceptor::Dropped::no_memory ? without_memory : without_descriptor);
    prepared_.reset();
  }

  int prepared = 0;
  int without_memory = 0;
  int without_descriptor = 0;
  bool out_of_memory = false;  // in the next call of accepted()
  std::vector<std::unique_ptr<Stream>> open;
  std::vector<core::Address> peers;
  std::vector<core::Address> secure_peers;

 private:
  core::Reactor& reactor_;
  std::unique_ptr<Stream> prepared_;
};

struct Client {
  explicit Client(core::Reactor& reactor) : stream(reactor) {}
  Stream stream;
  bool is_connected = false;
  bool has_failed = false;  // could not connect
  bool has_ended = false;   // was connected, and the server has closed the connection
};

class AcceptorTest : public core::OnReactor {
 protected:
  void run_until(const std::function<bool()>& done) {
    for (int turns = 0; !done() && turns < 100000; ++turns) reactor->turn(reactor->now() + 10ms);
    ASSERT_TRUE(done()) << "the loop did not finish";
  }
  core::Address listen(bool secure = false) {
    const auto address = acceptor.listen(*core::Address::parse("127.0.0.1:0"), secure);
    EXPECT_TRUE(address);
    return *address;
  }
  Client& connect(const core::Address& to) {
    Client& client = *clients.emplace_back(std::make_unique<Client>(*reactor));
    tasks.spawn([](Client& self, core::Address address) -> Task<void> {
      self.is_connected = (co_await self.stream.connect(address, never)).has_value();
      self.has_failed = !self.is_connected;
      if (self.has_failed) co_return;
      Buffer buffer;
      const auto got = co_await self.stream.read(buffer, 1, never);
      self.has_ended = !got || *got == 0;
    }(client, to));
    return client;
  }
  void expect_refused(const core::Address& to) {
    Client& client = connect(to);
    run_until([&] { return client.has_failed || client.has_ended; });
    EXPECT_TRUE(client.has_failed) << to.text();
  }
  void expect_accepted(const core::Address& to) {
    const std::size_t before = owner.open.size();
    connect(to);
    run_until([&] { return owner.open.size() == before + 1; });
  }

  std::unique_ptr<core::Reactor> reactor = GetParam().make();
  TestOwner owner{*reactor};
  Acceptor acceptor{*reactor, owner, {}};
  std::vector<std::unique_ptr<Client>> clients;
  core::TaskGroup tasks;
};

TEST_P(AcceptorTest, TheOwnerGetsEachClientWithItsAddress) {
  const core::Address plain = listen();
  const core::Address secure = listen(true);
  EXPECT_NE(plain.text(), secure.text());
  for (int i = 0; i < 100; ++i) connect(plain);  // more than are accepted in one turn
  connect(secure);
  run_until([&] { return owner.open.size() == 101; });
  ASSERT_EQ(owner.peers.size(), 100u);
  ASSERT_EQ(owner.secure_peers.size(), 1u);
  EXPECT_EQ(owner.peers[0].ip(), "127.0.0.1");
  for (const auto& stream : owner.open) EXPECT_TRUE(stream->open());
  EXPECT_LE(owner.prepared, 102) << "a prepared connection is kept for the next client";
}

TEST_P(AcceptorTest, ABoundAddressIsListenedOnOnlyFromListenOn) {
  const core::Address first = listen();
  const core::Address added = *acceptor.bind(*core::Address::parse("127.0.0.1:0"));
  EXPECT_EQ(acceptor.bind(added)->text(), added.text()) << "once";
  expect_refused(added);
  ASSERT_TRUE(acceptor.listen_on(std::array<Listening, 2>{{{first, false}, {added, true}}}));
  expect_accepted(first);
  expect_accepted(added);
  EXPECT_EQ(owner.secure_peers.size(), 1u);
  ASSERT_TRUE(acceptor.listen_on(std::array<Listening, 2>{{{first, true}, {added, true}}}));
  expect_accepted(first);
  EXPECT_EQ(owner.secure_peers.size(), 2u);
}

TEST_P(AcceptorTest, ARemovedListenerAcceptsTheClientsInItsQueue) {
  const core::Address kept = listen();
  // Clients are in the queue of a unix socket at once.
  const std::string path = testing::TempDir() + "acceptor_test_" + std::to_string(::getpid()) + GetParam().name;
  const auto removed = acceptor.listen(*core::Address::parse("unix:" + path));
  ASSERT_TRUE(removed);
  for (int i = 0; i < 100; ++i) connect(*removed);  // more than are accepted in one turn
  ASSERT_TRUE(owner.open.empty());
  ASSERT_TRUE(acceptor.listen_on(std::array<Listening, 1>{{{kept, false}}}));
  run_until([&] { return owner.open.size() == 100; });
  for (int turns = 0; turns < 20; ++turns) reactor->turn(reactor->now() + 1ms);  // then the listener is closed
  expect_refused(*removed);
  expect_accepted(kept);
  ASSERT_TRUE(acceptor.listen(*removed)) << "the address can be used again";
  expect_accepted(*removed);
  ::unlink(path.c_str());
}

TEST_P(AcceptorTest, ClientsBeyondTheLimitOfDescriptorsAreDropped) {
  TroubleLog trouble("accepting", "goes on", "clients were dropped");
  const core::Address address = listen();
  expect_accepted(address);
  acceptor.set_options({.descriptors = owner.open[0]->handle().fd, .trouble = &trouble});
  Client& dropped = connect(address);
  run_until([&] { return dropped.has_ended; });
  EXPECT_EQ(owner.without_descriptor, 1);
  EXPECT_EQ(owner.open.size(), 1u);
  acceptor.set_options({});
  expect_accepted(address);
  EXPECT_EQ(owner.without_descriptor, 1);
}

TEST_P(AcceptorTest, AClientIsDroppedIfThereIsNoMemoryForIt) {
  const core::Address address = listen();
  owner.out_of_memory = true;
  Client& dropped = connect(address);
  run_until([&] { return dropped.has_ended; });
  EXPECT_EQ(owner.without_memory, 1);
  EXPECT_TRUE(owner.open.empty());
  expect_accepted(address);
}

TEST_P(AcceptorTest, StopClosesAllListeners) {
  const core::Address first = listen();
  const core::Address second = listen();
  const core::Address bound = *acceptor.bind(*core::Address::parse("127.0.0.1:0"));
  expect_accepted(first);
  ASSERT_TRUE(acceptor.listen_on(std::array<Listening, 1>{{{first, false}}}));  // the second is ending
  acceptor.stop();
  for (const core::Address& address : {first, second, bound}) expect_refused(address);
  ASSERT_TRUE(acceptor.listen_on(std::array<Listening, 1>{{{first, false}}}));
  expect_refused(first);
  EXPECT_TRUE(owner.open[0]->open()) << "accepted connections stay open";
}

INSTANTIATE_TEST_SUITE_P(, AcceptorTest,
                         testing::Values(core::on_epoll, core::on_uring,
                                         core::TestedReactor{"simulated",
                                                             [] -> std::unique_ptr<core::Reactor> {
                                                               return std::make_unique<core::SimulatedReactor>(3);
                                                             }}),
                         core::name_of);

// A listening socket from which several cores accept.
class SharedListenerTest : public core::OnReactor {
 protected:
  struct Core {
    std::unique_ptr<core::Reactor> reactor = GetParam().make();
    TestOwner owner{*reactor};
    Acceptor acceptor{*reactor, owner, {}};
  };

  SharedListenerTest() {
    EXPECT_EQ(::listen(socket, 100), 0);
    listening = {.address = *core::address_of(socket), .shared = socket};
  }
  ~SharedListenerTest() override {
    for (const int client : clients) ::close(client);
    ::close(socket);
  }
  // The kernel accepts the client; no core has to.
  void connect() {
    clients.push_back(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(clients.back(), listening.address.get(), listening.address.size()), 0);
  }
  void expect_all_open() {
    char byte = 0;
    for (const int client : clients) EXPECT_EQ(::recv(client, &byte, 1, MSG_DONTWAIT), -1) << "closed";
  }
  static void run_until(std::initializer_list<Core*> cores, const std::function<bool()>& done) {
    for (int turns = 0; !done() && turns < 10000; ++turns) {
      for (Core* core : cores) core->reactor->turn(core->reactor->now() + 1ms);
    }
    ASSERT_TRUE(done()) << "the loop did not finish";
  }

  int socket = *core::bind_socket(*core::Address::parse("127.0.0.1:0"), false, true);
  Listening listening;
  std::vector<int> clients;
};

TEST_P(SharedListenerTest, EachClientGoesToOneCore) {
  Core first;
  Core second;
  ASSERT_TRUE(first.acceptor.listen(listening));
  ASSERT_TRUE(second.acceptor.listen(listening));
  const auto accepted = [&] { return first.owner.open.size() + second.owner.open.size(); };
  for (int i = 0; i < 20; ++i) {
    connect();
    run_until({&first, &second}, [&] { return accepted() == clients.size(); });
  }
  for (int i = 0; i < 80; ++i) connect();  // more than are accepted in one turn
  run_until({&first, &second}, [&] { return accepted() == 100; });
  expect_all_open();
  EXPECT_EQ(first.owner.without_memory + second.owner.without_memory, 0);
}

TEST_P(SharedListenerTest, ClientsWaitForTheNextProcess) {
  Core old;
  ASSERT_TRUE(old.acceptor.listen(listening));
  connect();
  run_until({&old}, [&] { return old.owner.open.size() == 1; });
  for (int turns = 0; turns < 5; ++turns) old.reactor->turn(old.reactor->now() + 1ms);  // it waits for clients again
  connect();
  old.acceptor.stop();
  connect();
  for (int turns = 0; turns < 5; ++turns) old.reactor->turn(old.reactor->now() + 1ms);
  EXPECT_EQ(old.owner.open.size(), 1u);

  Core next;
  ASSERT_TRUE(next.acceptor.listen(listening));
  run_until({&old, &next}, [&] { return next.owner.open.size() == 2; });
  connect();
  run_until({&old, &next}, [&] { return next.owner.open.size() == 3; });
  expect_all_open();
}

INSTANTIATE_TEST_SUITE_P(, SharedListenerTest, testing::Values(core::on_epoll, core::on_uring), core::name_of);

TEST(AcceptorOfABoundAddress, ReleasesItIfItIsNotWanted) {
  core::SimulatedReactor reactor(3);
  TestOwner owner(reactor);
  Acceptor acceptor(reactor, owner, {});
  const auto bound = acceptor.bind(*core::Address::parse("127.0.0.1:0"));
  ASSERT_TRUE(bound);
  core::Handle other;
  EXPECT_FALSE(reactor.bind(other, *bound, false));
  ASSERT_TRUE(acceptor.listen_on({}));
  EXPECT_TRUE(reactor.bind(other, *bound, false));
  reactor.close(other);
}

TEST(AcceptorInBadWeather, AcceptsEachClientInTheEnd) {
  core::SimulatedReactor reactor(5, {.would_block = 0.3, .accept_error = 0.3});
  TestOwner owner(reactor);
  Acceptor acceptor(reactor, owner, {});
  const auto address = acceptor.listen(*core::Address::parse("127.0.0.1:0"));
  ASSERT_TRUE(address);
  std::vector<std::unique_ptr<Stream>> clients;
  core::TaskGroup tasks;
  for (int i = 0; i < 50; ++i) {
    tasks.spawn([](Stream& client, core::Address to) -> Task<void> {
      EXPECT_TRUE(co_await client.connect(to, never));
    }(*clients.emplace_back(std::make_unique<Stream>(reactor)), *address));
  }
  for (int turns = 0; owner.open.size() < 50 && turns < 100000; ++turns) reactor.turn(reactor.now() + 10ms);
  EXPECT_EQ(owner.open.size(), 50u);
  EXPECT_GT(reactor.counters().accept_errors, 0u);
}

}  // namespace
}  // namespace sluice::net
