#pragma once

#include "core/cycle_clock.h"
#include "core/reactor.h"

namespace sluice::core {

// What the reactors of the machine have in common: the clock, how sockets are made, everything that is sent, and the
// wake-up. What is left to them is how they learn of what comes.
//
// Sending is a plain system call with every back end: as a rule the socket takes all of it at once.
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

  // The plain call; takes away `may_read` where there is nothing more to read.
  [[nodiscard]] static Io receive(Handle& handle, char* into, std::size_t size);

  // `may_write` has been taken away: it is to come back with room.
  virtual void want_room(Handle&) noexcept {}
  // The error that has ended the connection, if it has been taken from the socket and told to nobody; told by this.
  [[nodiscard]] virtual int untold_error(Handle&) noexcept { return 0; }

  // Reads the real clock.
  void look_at_clock() { now_ = cycles_.read(); }
  // Who waits for what the flags say is called. False: the handle is gone() by that.
  bool dispatch(Handle& handle);
  // The handle is no more what it was: it has been closed.
  void gone(Handle& handle) {
    if (dispatching_ == &handle) dispatching_ = nullptr;
  }

  // Until `until`, the first timer, or the end of the first lull: negative for ever, rounded up.
  [[nodiscard]] int timeout_ms(Instant until);
  // The same to the nanosecond, for while there is a lull. Reads the clock: it would be late by what the turn took.
  [[nodiscard]] Duration exact_timeout(Instant until);
  // To the readers whose lulls are over.
  void end_lulls() {
    while (Handle* const handle = take_due_lull()) (void)dispatch(*handle);
  }

  [[nodiscard]] int wake_fd() const { return wake_; }

 private:
  Io send(Handle& handle, std::span<const iovec> parts, int flags);
  [[nodiscard]] Io sent(Handle& handle, ssize_t sent, std::size_t wanted);

  CycleClock cycles_;
  int wake_ = -1;  // an eventfd that nobody need read: written to is what it tells
  Handle* dispatching_ = nullptr;
};

}  // namespace sluice::core
