#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <sys/uio.h>

#include "base/result.h"
#include "base/time.h"
#include "core/address.h"
#include "core/timer.h"

namespace sluice::core {

// What one attempt at I/O gave: bytes (0 from recv: the peer has ended its stream), or an errno. EAGAIN: not now.
struct Io {
  std::size_t bytes = 0;
  int error = 0;

  [[nodiscard]] bool ok() const { return error == 0; }
  [[nodiscard]] bool would_block() const { return error == EAGAIN; }
};

// Someone who waits for a handle. `on_ready` runs inside the reactor's dispatch with the waiter still linked.
class Waiter {
 public:
  using Callback = void (*)(Waiter&) noexcept;
  explicit Waiter(Callback on_ready) : on_ready(on_ready) {}
  Waiter(const Waiter&) = delete;

  Callback on_ready;
};

// One socket as its reactor knows it. Registered once, edge-triggered: the flags say what is worth trying, an attempt
// that would block clears its flag, an event sets it again. It must not move, and outlives nothing: close() it first.
struct Handle {
  int fd = -1;
  bool may_read = false;
  bool may_write = false;
  bool peer_ended = false;  // the peer has shut its sending side, or the connection is gone; a read will tell which
  bool failed = false;      // the connection is gone in both directions
  Waiter* reader = nullptr;
  Waiter* writer = nullptr;
  void* backend = nullptr;  // the reactor's own
  std::uint64_t sent = 0;   // bytes that send and send_file have taken; only its growth says something

  Handle() = default;
  Handle(const Handle&) = delete;
  [[nodiscard]] bool open() const { return fd >= 0; }
};

// Runs once at the end of the turn in which it was asked for: flush what has gathered, commit, release. Or, where that
// was asked for, in the next turn. It waits for one of the two at a time.
class TurnHook {
 public:
  using Callback = void (*)(TurnHook&) noexcept;
  explicit TurnHook(Callback run) : run_(run) {}
  TurnHook(const TurnHook&) = delete;
  ~TurnHook();
  [[nodiscard]] bool pending() const { return previous_ != nullptr; }

 private:
  friend class Reactor;
  Callback run_;
  TurnHook* next_ = nullptr;
  TurnHook** previous_ = nullptr;
};

// A time in which what arrives for a handle wakes nobody: for who reads a stream that comes in many small pieces, and
// would be woken by each of them. At its end the handle `may_read`, and its reader is called. The peer's end, and room
// to write, are told of at once. It may be that it ends early.
class Lull {
 public:
  explicit Lull(Handle& handle) : handle_(handle) {}
  Lull(const Lull&) = delete;
  ~Lull() { unlink(); }
  [[nodiscard]] bool pending() const { return previous_ != nullptr; }

 private:
  friend class Reactor;
  void unlink();

  Handle& handle_;
  bool quiet_ = false;
  Instant end_{};
  Lull* next_ = nullptr;
  Lull** previous_ = nullptr;
};

struct ListenOptions {
  int backlog = 4096;
  bool reuse_port = true;
};

// The seam between the program and the machine: sockets and the clock of one core. The back ends are epoll, io_uring
// and, for tests, a simulated network with a virtual clock. Every attempt returns at once; try first, wait only when it
// would block.
class Reactor {
 public:
  static constexpr Duration next_turn_time = std::chrono::microseconds(500);

  virtual ~Reactor() = default;

  // As of the beginning of this turn.
  [[nodiscard]] Instant now() const { return now_; }
  // The same clock, read anew: for measuring within a turn.
  [[nodiscard]] virtual Instant clock() const { return now_; }
  // Nanoseconds of the machine's wall clock (Unix epoch); virtual in simulation.
  [[nodiscard]] virtual std::int64_t wall_clock_ns() const = 0;
  [[nodiscard]] TimerWheel& timers() { return timers_; }

  // The address is taken, and whoever connects is refused until start_listening().
  [[nodiscard]] virtual Result<void> bind(Handle& handle, const Address& address, bool reuse_port) = 0;
  [[nodiscard]] virtual Result<void> start_listening(Handle& handle, int backlog) = 0;
  [[nodiscard]] Result<void> listen(Handle& handle, const Address& address, const ListenOptions& options) {
    if (auto bound = bind(handle, address, options.reuse_port); !bound) return bound;
    auto started = start_listening(handle, options.backlog);
    if (!started) close(handle);
    return started;
  }
  // True: `accepted` is an open connection. False: nobody is waiting now.
  [[nodiscard]] virtual Result<bool> accept(Handle& listener, Handle& accepted, Address* peer) = 0;
  // True: connected. False: in progress; wait for `may_write`, then ask connect_result().
  [[nodiscard]] virtual Result<bool> connect(Handle& handle, const Address& address) = 0;
  [[nodiscard]] virtual Result<void> connect_result(Handle& handle) = 0;
  [[nodiscard]] virtual Result<Address> local_address(const Handle& handle) const = 0;
  virtual void close(Handle& handle) noexcept = 0;  // nobody may be waiting on it; harmless when it is not open
  virtual void shutdown_write(Handle& handle) noexcept = 0;
  virtual void reset_on_close(Handle& handle) noexcept = 0;  // close() will then send RST: the peer can tell

  [[nodiscard]] virtual Io recv(Handle& handle, char* into, std::size_t size) = 0;
  [[nodiscard]] virtual Io send(Handle& handle, std::span<const iovec> parts) = 0;
  // More follows at once, and what is sent may wait to travel with it.
  [[nodiscard]] virtual Io send_before_more(Handle& handle, std::span<const iovec> parts) {
    return send(handle, parts);
  }
  // From on to off, packets that are not full wait for what follows: for who sends much in several calls. What has
  // waited goes with off. No effect where there are no packets.
  virtual void cork(Handle& /*handle*/, bool /*on*/) noexcept {}
  [[nodiscard]] virtual Io send_file(Handle& handle, int file, std::uint64_t offset, std::size_t size) = 0;

  // Bytes that were sent and that the peer has not acknowledged (TCP) or read (unix socket) yet: with `sent` they tell
  // how fast it takes them, however large the socket's buffer is.
  [[nodiscard]] virtual std::size_t unsent(const Handle& handle) const noexcept;

  // Counts from now(), and is more exact than a timer: a lull is some hundred microseconds long. When it is over the
  // handle stays quiet: what has been found then is followed by another lull, or by end_lull(). Precondition: none is
  // pending, may_read is not set, the time is more than none.
  void begin_lull(Lull& lull, Duration time);
  // From here on all that arrives is told of, and so is what has arrived. Before the handle is closed; harmless where
  // none has begun.
  void end_lull(Lull& lull);

  // One turn: runs the hooks that are pending; waits until something is ready, `until`, or wake(), but not where a hook
  // is pending for the next turn; dispatches; fires timers; runs the turn's hooks.
  virtual void turn(Instant until) = 0;
  // From any thread: the current or the next turn() returns soon. Async-signal-safe.
  virtual void wake() noexcept = 0;

  void at_turn_end(TurnHook& hook);  // no effect when it is pending already
  // For work that has had its share of this turn and has more to do: everything that is ready comes first. Hooks that
  // ask in one turn run before those that ask in a later one, and no more of them in a turn than `next_turn_time`
  // allows. No effect when it is pending.
  void at_next_turn(TurnHook& hook);

 protected:
  explicit Reactor(Instant start) : now_(start), timers_(start) {}
  void begin_turn();  // before the wait: what was put off until this turn, and the hooks
  void run_hooks();
  [[nodiscard]] bool hooks_pending() const { return hooks_ != nullptr; }
  // After begin_turn(): the wait must be none.
  [[nodiscard]] bool next_turn_is_due() const { return next_turn_ != nullptr || due_ != nullptr; }
  [[nodiscard]] std::size_t timers_armed() const { return timers_.size(); }

  // Of the first lull.
  [[nodiscard]] Instant next_lull() const { return lulls_ == nullptr ? never : lulls_->end_; }
  // The handle of one that is over, which then may_read; null: there is none.
  [[nodiscard]] Handle* take_due_lull();
  // What arrives is told of no more, or is again, as what has arrived meanwhile.
  virtual void set_quiet(Handle& handle, bool quiet) noexcept = 0;

  Instant now_;

 private:
  TimerWheel timers_;
  static void link(TurnHook& hook, TurnHook*& list);
  static TurnHook& unlink_first(TurnHook*& list);

  TurnHook* hooks_ = nullptr;
  TurnHook* next_turn_ = nullptr;
  TurnHook* due_ = nullptr;  // what the last turns have not come to
  Lull* lulls_ = nullptr;    // by their ends; one for each of a few streams
};

// The back ends that are the machine's. A reactor of theirs is made, used and destroyed on one thread; making it throws
// std::system_error where the system refuses.
enum class BackEnd : std::uint8_t { epoll, uring };

[[nodiscard]] std::unique_ptr<Reactor> make_epoll_reactor();
// Takes Linux 6.1, and a system that allows it: what() says what is missing.
[[nodiscard]] std::unique_ptr<Reactor> make_uring_reactor();
[[nodiscard]] inline std::unique_ptr<Reactor> make_reactor(BackEnd back_end) {
  return back_end == BackEnd::uring ? make_uring_reactor() : make_epoll_reactor();
}

}  // namespace sluice::core
