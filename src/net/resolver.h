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

// The IPv4 and IPv6 addresses of a host name. Immutable, shared by all callers that asked for the name.
struct Addresses {
  std::vector<core::Address> list;  // in the order in which to try them (RFC 6724), without a port; never empty
  Instant until;                    // by the Resolver's clock; in the past: the answer is stale
};

// Resolves host names to addresses, for one process. Every core may call it, and no core blocks: c-ares runs on the
// Resolver's own thread, and the answer arrives through the core's mailbox.
//
//   const auto found = co_await resolver.resolve(mailbox, "db.example", deadline);
//
// c-ares reads /etc/hosts, /etc/resolv.conf and /etc/nsswitch.conf when it starts a query while no other query runs. It
// supports only the sources "files" and "dns" of nsswitch.conf.
//
// An answer is cached for its smallest TTL, limited to the range from `shortest` to `longest`; an answer from
// /etc/hosts for `hosts_file`. A numeric address needs no query and never expires. A failure (the name has no address,
// or no server could be asked) is cached for `failure`. While a query for a name is in flight, all callers for that
// name wait for it.
//
// If the servers fail or do not answer in time, the expired addresses are returned for up to `stale` longer. An answer
// that the name does not exist any more removes them.
class Resolver {
 public:
  static constexpr Duration shortest = 1s;
  static constexpr Duration longest = 10min;
  static constexpr Duration hosts_file = 10s;
  static constexpr Duration failure = 2s;
  static constexpr Duration stale = 1h;
  static constexpr std::size_t most_names =
      1024;  // cached names; further names are refused if queries for all of these are in flight

  struct Options {
    std::string servers = {};                // "127.0.0.1:5300,[::1]:53"; empty: those of /etc/resolv.conf
    std::chrono::milliseconds timeout = 2s;  // of the first try at a server; the second takes twice as long
    int tries = 2;                           // at each server
    std::function<Instant()> clock = {};     // called on all threads; empty: the clock of the machine's reactors
  };
  // The error is the text of c-ares.
  using Answer = std::expected<std::shared_ptr<const Addresses>, std::string>;
  class Resolving;

  Resolver() : Resolver(Options{}) {}
  // Throws std::system_error if the thread cannot be started.
  explicit Resolver(Options options);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  // No caller may be waiting. The mailboxes may be closed but must still exist.
  ~Resolver();

  // Answer found = co_await resolve(home, host, deadline): for the core of that mailbox. `host` must outlive the wait.
  // Destroying the waiting coroutine ends only its wait: the answer is still cached.
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
