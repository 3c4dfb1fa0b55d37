#pragma once

#include <chrono>
#include <coroutine>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/time.h"
#include "core/address.h"
#include "core/mailbox.h"
#include "core/timer.h"

namespace sluice::net {

// Where a host name leads, IPv4 and IPv6. Immutable, shared by all who asked for the name.
struct Addresses {
  std::vector<core::Address> list;  // in the order in which to try them (RFC 6724), without a port; never empty
  Instant until;                    // by the Resolver's clock; in the past: the answer is stale
};

// Host names to addresses, for one process. Every core may ask, and no core blocks: c-ares asks on a thread of the
// Resolver's own, and the answer comes back through the core's mailbox.
//
//   const auto found = co_await resolver.resolve(mailbox, "db.example", deadline);
//
// c-ares reads /etc/hosts, /etc/resolv.conf and /etc/nsswitch.conf whenever it begins to ask while nothing else is
// asked. It knows the sources "files" and "dns", and no other one of nsswitch.conf.
//
// An answer is kept as long as its smallest TTL says, but for `shortest` to `longest`; one of /etc/hosts for
// `hosts_file`. An address in digits is its own answer, asks nobody and holds for ever. That a name has no address, or
// that nobody could be asked, is kept for `failure`. While a name has one query in flight everybody waits for that one.
//
// Where the servers fail or do not answer in time, the last addresses are given again, for up to `stale` beyond their
// time. That the name does not exist any more is an answer, and ends them.
class Resolver {
 public:
  static constexpr Duration shortest = 1s;
  static constexpr Duration longest = 10min;
  static constexpr Duration hosts_file = 10s;
  static constexpr Duration failure = 2s;
  static constexpr Duration stale = 1h;
  static constexpr std::size_t most_names = 1024;  // that are kept; more are refused while all of these are asked for

  struct Options {
    std::string servers = {};                // "127.0.0.1:5300,[::1]:53"; empty: those of /etc/resolv.conf
    std::chrono::milliseconds timeout = 2s;  // of a server's first try; the next one takes twice as long
    int tries = 2;                           // at each server
    std::function<Instant()> clock = {};     // called on all threads; empty: that of the machine's reactors
  };
  // The error is c-ares' text.
  using Answer = std::expected<std::shared_ptr<const Addresses>, std::string>;
  class Resolving;

  Resolver() : Resolver(Options{}) {}
  // Throws std::system_error where the thread cannot be started.
  explicit Resolver(Options options);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  // Nobody waits any more; the mailboxes may have closed, and still exist.
  ~Resolver();

  // Answer found = co_await resolve(home, host, deadline): for the core of that mailbox. `host` outlives the wait.
  // Destroying who waits ends the wait alone: the answer is kept for whoever asks next.
  [[nodiscard]] Resolving resolve(core::Mailbox& home, std::string_view host, Instant deadline);

 private:
  struct Entry;
  struct Query;
  struct State;
  struct Wait;

  const std::unique_ptr<State> state_;
  std::thread thread_;
};

class [[nodiscard]] Resolver::Resolving : core::Timer {
 public:
  Resolving(State& state, core::Mailbox& home, std::string_view host, Instant deadline)
      : Timer(expire), state_(state), home_(home), host_(host), deadline_(deadline) {}
  Resolving(const Resolving&) = delete;
  ~Resolving();

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> caller);
  Answer await_resume() { return std::move(*answer_); }

 private:
  friend struct Wait;
  static void expire(Timer& timer) noexcept;

  State& state_;
  core::Mailbox& home_;
  const std::string_view host_;
  const Instant deadline_;
  std::coroutine_handle<> caller_;
  Wait* wait_ = nullptr;
  std::optional<Answer> answer_;
};

inline Resolver::Resolving Resolver::resolve(core::Mailbox& home, std::string_view host, Instant deadline) {
  return {*state_, home, host, deadline};
}

}  // namespace sluice::net
