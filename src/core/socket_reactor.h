#pragma once

#include "core/cycle_clock.h"
#include "core/reactor.h"

namespace sluice::core {

// The common part of the epoll and io_uring reactors: the clock, creating sockets, sending, and the wake-up. The
// derived classes differ in how they learn of events.
//
// Every back end sends with a plain system call, because the socket usually accepts everything at once.
class SocketReactor : public Reactor {
 public:
  SocketReactor(const SocketReactor&) = delete;
  ~SocketReactor() override;

  Instant clock() const override { return cycles_.since(); }
  std::int64_t wall_clock_ns() const override;

  Result<void> connect_result(Handle& handle) override;
  Result<Address> local_address(const Handle& handle) const override;
  void shutdown_write(Handle& handle) noexcept override;
  void reset_on_close(Handle& handle) noexcept override;

  Io send(Handle& handle, std::span<const iovec> parts) override;
  Io send_before_more(Handle& handle, std::span<const iovec> parts) override;
  Io send_file(Handle& handle, int file, std::uint64_t offset, std::size_t size) override;
  void cork(Handle& handle, bool on) noexcept override;

  void wake() noexcept override;

 protected:
  SocketReactor();

  struct Connecting {
    int fd;
    bool done;  // false: in progress
  };
  [[nodiscard]] static Result<Connecting> make_connection(const Address& address);

  // Calls recv directly; clears `may_read` if there is nothing more to read.
  [[nodiscard]] static Io receive(Handle& handle, char* into, std::size_t size);

  // `may_write` was cleared and must be set again when there is room.
  virtual void want_room(Handle&) noexcept {}
  // Returns and clears an error that ended the connection and was read from the socket but not yet reported.
  [[nodiscard]] virtual int untold_error(Handle&) noexcept { return 0; }

  // Reads the real clock.
  void look_at_clock() { now_ = cycles_.read(); }
  // Calls the waiters that the flags make ready. Returns false if that closed the handle.
  bool dispatch(Handle& handle);
  // Marks the handle as closed, so that a running dispatch() does not use it again.
  void gone(Handle& handle) {
    if (dispatching_ == &handle) dispatching_ = nullptr;
  }

  // The milliseconds until the earliest of `until`, the first timer and the end of the first Lull (reactor.h), rounded
  // up; negative: wait without limit.
  [[nodiscard]] int timeout_ms(Instant until);
  // The same with nanosecond precision, used while there is a lull. Reads the clock, so the time that the turn has
  // taken is not added.
  [[nodiscard]] Duration exact_timeout(Instant until);
  // Calls the readers whose lulls are over.
  void end_lulls() {
    while (Handle* const handle = take_due_lull()) (void)dispatch(*handle);
  }

  [[nodiscard]] int wake_fd() const { return wake_; }

 private:
  Io send(Handle& handle, std::span<const iovec> parts, int flags);
  [[nodiscard]] Io sent(Handle& handle, ssize_t sent, std::size_t wanted);

  CycleClock cycles_;
  int wake_ = -1;  // an eventfd; its counter is never read, because each write gives an edge
  Handle* dispatching_ = nullptr;
};

}  // namespace sluice::core
