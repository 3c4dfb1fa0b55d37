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

// The result of one attempt at I/O: a number of bytes (0 from recv: the peer has ended its stream) or an errno. EAGAIN:
// try again later.
struct Io {
  std::size_t bytes = 0;
  int error = 0;

  [[nodiscard]] bool ok() const { return error == 0; }
  [[nodiscard]] bool would_block() const { return error == EAGAIN; }
};

// Waits for a handle. The reactor calls `on_ready` from its dispatch, while the waiter is still linked.
class Waiter {
 public:
  using Callback = void (*)(Waiter&) noexcept;
  explicit Waiter(Callback on_ready) : on_ready(on_ready) {}
  Waiter(const Waiter&) = delete;

  Callback on_ready;
};

// A socket as its reactor knows it. Registered once, edge-triggered. The flags say which operations are worth trying:
// an attempt that would block clears its flag, an event sets it again. A Handle must not move, and must be closed with
// close() before it is destroyed.
struct Handle {
  int fd = -1;
  bool may_read = false;
  bool may_write = false;
  bool peer_ended = false;  // the peer has shut its sending side, or the connection has failed; a read tells which
  bool failed = false;      // the connection has failed in both directions
  bool is_shared = false;   // of bind_shared()
  Waiter* reader = nullptr;
  Waiter* writer = nullptr;
  void* backend = nullptr;  // belongs to the reactor
  std::uint64_t sent = 0;   // bytes accepted by send and send_file; only its increase is meaningful

  Handle() = default;
  Handle(const Handle&) = delete;
  [[nodiscard]] bool open() const { return fd >= 0; }
};

// A callback that runs once: at the end of the current turn (to flush, commit or release), or in the next turn. The
// hook can be pending for only one of the two.
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

// A period during which received bytes do not wake the handle's reader. It is for streams that arrive in many small
// pieces, each of which would wake the reader. At its end, `may_read` is set and the reader is called. The peer's end
// and room to write are still reported at once. A lull may end early.
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

// The interface between the program and the operating system: sockets and the clock of one core. The back ends are
// epoll, io_uring and, for tests, a simulated network with a virtual clock. Every attempt returns at once: try first,
// and wait only if the attempt would block.
class Reactor {
 public:
  static constexpr Duration next_turn_time = std::chrono::microseconds(500);

  virtual ~Reactor() = default;

  // The time at the beginning of this turn.
  [[nodiscard]] Instant now() const { return now_; }
  // Reads the same clock again, for measuring within a turn.
  [[nodiscard]] virtual Instant clock() const { return now_; }
  // Nanoseconds of the machine's wall clock (Unix epoch); virtual in simulation.
  [[nodiscard]] virtual std::int64_t wall_clock_ns() const = 0;
  [[nodiscard]] TimerWheel& timers() { return timers_; }

  // Binds the address. Connections to it are refused until start_listening().
  [[nodiscard]] virtual Result<void> bind(Handle& handle, const Address& address, bool reuse_port) = 0;
  // For a listening socket from which others accept too: other cores, and other processes. Each client wakes one of
  // them. close() closes this core's descriptor alone, and clients that are not accepted yet keep waiting. Only the
  // back ends that use the operating system have it.
  [[nodiscard]] virtual Result<void> bind_shared(Handle& /*handle*/, int /*socket*/) {
    return fail(Errc::system, EOPNOTSUPP);
  }
  [[nodiscard]] virtual Result<void> start_listening(Handle& handle, int backlog) = 0;
  [[nodiscard]] Result<void> listen(Handle& handle, const Address& address, const ListenOptions& options) {
    if (auto bound = bind(handle, address, options.reuse_port); !bound) return bound;
    auto started = start_listening(handle, options.backlog);
    if (!started) close(handle);
    return started;
  }
  // True: `accepted` is an open connection. False: no connection is waiting now.
  [[nodiscard]] virtual Result<bool> accept(Handle& listener, Handle& accepted, Address* peer) = 0;
  // True: connected. False: in progress; wait for `may_write`, then ask connect_result().
  [[nodiscard]] virtual Result<bool> connect(Handle& handle, const Address& address) = 0;
  [[nodiscard]] virtual Result<void> connect_result(Handle& handle) = 0;
  [[nodiscard]] virtual Result<Address> local_address(const Handle& handle) const = 0;
  virtual void close(Handle& handle) noexcept = 0;  // precondition: no waiter is linked; harmless if not open
  virtual void shutdown_write(Handle& handle) noexcept = 0;
  virtual void reset_on_close(Handle& handle) noexcept = 0;  // close() will send RST, so the peer detects missing data

  [[nodiscard]] virtual Io recv(Handle& handle, char* into, std::size_t size) = 0;
  [[nodiscard]] virtual Io send(Handle& handle, std::span<const iovec> parts) = 0;
  // More data follows at once, so the kernel may delay these bytes to send them together with it (MSG_MORE).
  [[nodiscard]] virtual Io send_before_more(Handle& handle, std::span<const iovec> parts) {
    return send(handle, parts);
  }
  // While `on`, the kernel holds back packets that are not full; turning it off sends them (TCP_CORK). For senders that
  // make several calls. No effect where there are no packets.
  virtual void cork(Handle& /*handle*/, bool /*on*/) noexcept {}
  [[nodiscard]] virtual Io send_file(Handle& handle, int file, std::uint64_t offset, std::size_t size) = 0;

  // Bytes that were sent but not yet acknowledged (TCP) or read (unix socket) by the peer. Together with `sent`, this
  // shows how fast the peer reads, independent of the size of the socket's buffer.
  [[nodiscard]] virtual std::size_t unsent(const Handle& handle) const noexcept;

  // The lull starts at now(). It is more precise than a timer, because it lasts only some hundred microseconds. After
  // its end, the handle stays quiet until end_lull(), so the reader can begin another lull after reading.
  // Preconditions: the lull is not pending, may_read is not set, and `time` is positive.
  void begin_lull(Lull& lull, Duration time);
  // Reports received bytes again, including those that have arrived meanwhile. Must be called before the handle is
  // closed; harmless if no lull has begun.
  void end_lull(Lull& lull);

  // One turn:
  // 1. Runs the pending hooks.
  // 2. Waits until a handle is ready, `until` has come, or wake() is called. Does not wait if a hook is pending for the
  //    next turn.
  // 3. Dispatches the ready handles and fires timers.
  // 4. Runs the hooks of at_turn_end().
  virtual void turn(Instant until) = 0;
  // May be called from any thread: the current or the next turn() returns soon. Async-signal-safe.
  virtual void wake() noexcept = 0;

  void at_turn_end(TurnHook& hook);  // no effect if it is already pending
  // For work that has used its share of this turn and has more to do. The hook runs after everything that is ready.
  // Hooks run in the order of the turns in which they were registered. One turn runs only as many as fit into
  // `next_turn_time`. No effect if the hook is already pending.
  void at_next_turn(TurnHook& hook);

 protected:
  explicit Reactor(Instant start) : now_(start), timers_(start) {}
  void begin_turn();  // before the wait: runs the hooks that were deferred to this turn, then the others
  void run_hooks();
  [[nodiscard]] bool hooks_pending() const { return hooks_ != nullptr; }
  // Valid after begin_turn(). If true, the turn must not wait.
  [[nodiscard]] bool next_turn_is_due() const { return next_turn_ != nullptr || due_ != nullptr; }
  [[nodiscard]] std::size_t timers_armed() const { return timers_.size(); }

  [[nodiscard]] Instant next_lull() const { return lulls_ == nullptr ? never : lulls_->end_; }
  // Removes a lull that is over, sets its handle's may_read and returns the handle; null if no lull is over.
  [[nodiscard]] Handle* take_due_lull();
  // Stops reporting received bytes, or reports them again, including those that have arrived meanwhile.
  virtual void set_quiet(Handle& handle, bool quiet) noexcept = 0;

  Instant now_;

 private:
  TimerWheel timers_;
  static void link(TurnHook& hook, TurnHook*& list);
  static TurnHook& unlink_first(TurnHook*& list);

  TurnHook* hooks_ = nullptr;
  TurnHook* next_turn_ = nullptr;
  TurnHook* due_ = nullptr;  // hooks that were due but did not fit into the last turns
  Lull* lulls_ = nullptr;    // sorted by end; only a few streams have one
};

// The back ends that use the operating system. Such a reactor is constructed, used and destroyed on one thread. The
// constructor throws std::system_error if the system refuses.
enum class BackEnd : std::uint8_t { epoll, uring };

[[nodiscard]] std::unique_ptr<Reactor> make_epoll_reactor();
// Requires Linux 6.1 and a system that permits io_uring; what() of the exception says what is missing.
[[nodiscard]] std::unique_ptr<Reactor> make_uring_reactor();
[[nodiscard]] inline std::unique_ptr<Reactor> make_reactor(BackEnd back_end) {
  return back_end == BackEnd::uring ? make_uring_reactor() : make_epoll_reactor();
}

}  // namespace sluice::core
