#include <algorithm>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/socket.h>
#include <unistd.h>

#include "msg/groups.h"
#include "msg/session_for_benches.h"
#include "msg/sessions.h"
#include "msg/tcp_session.h"

namespace sluice::msg {
namespace {

// `count` open sessions, and their ids in random order.
struct Crowd {
  explicit Crowd(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(core.begin()->id());
    std::ranges::shuffle(ids, std::mt19937(7));
  }
  BenchCore core;
  std::vector<std::uint64_t> ids;
};

template <class Map>
struct InMap {
  explicit InMap(Crowd& crowd) {
    for (Session* session : crowd.core.sessions.all()) map.emplace(session->id(), session);
  }
  [[nodiscard]] Session* find(std::uint64_t id) const {
    const auto found = map.find(id);
    return found == map.end() ? nullptr : found->second;
  }
  void visit() const {
    for (const auto& [id, session] : map) benchmark::DoNotOptimize(session->id());
  }
  Map map;
};
using InTree = InMap<std::map<std::uint64_t, Session*>>;
using InHashMap = InMap<std::unordered_map<std::uint64_t, Session*>>;

struct InSessions {
  explicit InSessions(Crowd& crowd) : sessions(crowd.core.sessions) {}
  [[nodiscard]] Session* find(std::uint64_t id) const { return sessions.find(id); }
  void visit() const {
    for (const Session* const session : sessions.all()) benchmark::DoNotOptimize(session->id());
  }
  Sessions& sessions;
};

// One of `range` sessions by its id. Sessions has a std::unordered_map; bench/maps.cc compares it with other hash maps.
template <class Place>
void session_find(benchmark::State& state) {
  Crowd crowd(state.range(0));
  const Place place(crowd);
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(place.find(crowd.ids[at]));
    if (++at == crowd.ids.size()) at = 0;
  }
}
BENCHMARK(session_find<InSessions>)->Arg(100)->Arg(1'000)->Arg(10'000)->Arg(100'000);
BENCHMARK(session_find<InTree>)->Arg(100)->Arg(1'000)->Arg(10'000)->Arg(100'000);

// Reads a field of every session. The time is of one session.
template <class Place>
void session_iterate(benchmark::State& state) {
  Crowd crowd(state.range(0));
  const Place place(crowd);
  while (state.KeepRunningBatch(state.range(0))) place.visit();
}
BENCHMARK(session_iterate<InSessions>)->Arg(100)->Arg(1'000)->Arg(10'000)->Arg(100'000);
BENCHMARK(session_iterate<InHashMap>)->Arg(100)->Arg(1'000)->Arg(10'000)->Arg(100'000);
BENCHMARK(session_iterate<InTree>)->Arg(100)->Arg(1'000)->Arg(10'000)->Arg(100'000);

// The object of a connection alone, without a socket and without a place among the sessions.
void tcp_session_create_and_destroy(benchmark::State& state) {
  BenchCore core;
  const auto tls = std::make_shared<net::tls::CoreState>();
  for (auto _ : state) {
    const SessionRef session(*new TcpSession(core.sessions, tls));
    benchmark::DoNotOptimize(session->id());
  }
}
BENCHMARK(tcp_session_create_and_destroy);

// A connection over loopback is made, accepted and registered with epoll, gets its session, and all of it is closed.
void session_with_its_socket(benchmark::State& state) {
  const std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  Dispatcher dispatcher;
  Sessions sessions(*reactor, 0, dispatcher, nullptr, {});
  const auto tls = std::make_shared<net::tls::CoreState>();
  core::Handle listener;
  const core::Address any = *core::Address::parse("127.0.0.1:0");
  if (!reactor->bind(listener, any, false) || !reactor->start_listening(listener, 16))
    return state.SkipWithError("cannot listen");
  const core::Address address = *reactor->local_address(listener);
  for (auto _ : state) {
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(client, address.get(), address.size()) != 0) return state.SkipWithError("cannot connect");
    const SessionRef session(*new TcpSession(sessions, tls));
    auto& of_tcp = static_cast<TcpSession&>(*session);
    const Result<bool> accepted = reactor->accept(listener, of_tcp.handle(), nullptr);
    if (!accepted || !*accepted) return state.SkipWithError("cannot accept");
    of_tcp.begin("127.0.0.1", nullptr);
    session->cut(Ended::by_peer);
    reactor->turn(Instant{});
    ::close(client);
  }
  reactor->close(listener);
}
BENCHMARK(session_with_its_socket);

// A session begins and ends beside `range` others: it gets its place in the map and the list, and loses it at the end
// of the turn.
void session_begin_and_end(benchmark::State& state) {
  Crowd crowd(state.range(0));
  for (auto _ : state) {
    crowd.core.begin()->cut(Ended::by_peer);
    crowd.core.end_turn();
  }
  if (crowd.core.sessions.all().size() != crowd.ids.size()) state.SkipWithError("a session did not end");
}
BENCHMARK(session_begin_and_end)->Arg(0)->Arg(10'000)->Arg(100'000);

// A message to a group of 100 of `range` sessions, and the end of the turn that writes it.
void group_broadcast(benchmark::State& state) {
  Crowd crowd(state.range(0));
  Groups groups;
  for (std::size_t i = 0; i < 100; ++i) groups.join(*crowd.core.sessions.find(crowd.ids[i]), "room 7");
  const Payload payload = make_payload({.id = 1, .body = bytes_of("hello")});
  for (auto _ : state) {
    groups.broadcast("room 7", payload);
    crowd.core.end_turn();
  }
}
BENCHMARK(group_broadcast)->Arg(100)->Arg(9'000);

void session_ref_copy(benchmark::State& state) {
  BenchCore core;
  const SessionRef session = core.begin();
  for (auto _ : state) {
    SessionRef copy(session);
    benchmark::DoNotOptimize(copy);
  }
}
BENCHMARK(session_ref_copy);

// While a process has one thread, libstdc++ counts without atomic operations. So here it has two, as a server has.
void shared_ptr_copy(benchmark::State& state) {
  std::promise<void> over;
  std::thread other([&] { over.get_future().wait(); });
  const auto pointer = std::make_shared<std::uint64_t>(7);
  for (auto _ : state) {
    std::shared_ptr<std::uint64_t> copy(pointer);
    benchmark::DoNotOptimize(copy);
  }
  over.set_value();
  other.join();
}
BENCHMARK(shared_ptr_copy);

}  // namespace
}  // namespace sluice::msg
