#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/reactor.h"

namespace sluice::core {

// The faults that the simulated network injects. A real kernel or network may cause each of them. Probabilities are per
// attempt or per segment, 0 to 1.
struct Faults {
  double short_read = 0;      // recv returns only a part of the available bytes; the rest is announced later
  double short_write = 0;     // send accepts only a part although there is room; the room is announced later
  double would_block = 0;     // an attempt that could have succeeded returns EAGAIN; readiness is announced later
  double split = 0;           // the bytes of one send arrive in pieces
  double stall = 0;           // a segment and those after it arrive late, as after a packet loss
  double reset = 0;           // a segment ends its connection: both ends are reset, bytes in flight are lost
  double vanish = 0;          // a segment is the last one: nothing more arrives at either end, without notice
  double refuse = 0;          // a connect is answered with ECONNREFUSED
  double accept_error = 0;    // accept returns EMFILE; the connection stays in the queue, without a new edge
  double accept_abort = 0;    // accept returns ECONNABORTED; the connection is reset
  Duration min_delay = 20us;  // of a segment
  Duration max_delay = 500us;
  Duration stall_delay = 300ms;
  Duration later = 1ms;            // the maximum time until something held back by a fault is announced
  std::size_t buffer = 64 * 1024;  // bytes sent in one direction and not read yet, beyond which send returns EAGAIN
};

// The simulated back end: a network in memory and a virtual clock that jumps to the next event, both driven by one
// seed. Clients connect to listeners of the same reactor, by address. It gives only the edges that Linux promises for
// sockets that are registered once and edge-triggered, so code that relies on another edge waits forever here too.
//
// The same seed and the same calls give the same history. Nothing here sleeps. A turn takes at least a microsecond of
// virtual time, so even a loop that never waits reaches its deadlines.
class SimulatedReactor final : public Reactor {
 public:
  struct Counters {
    std::uint64_t turns = 0;
    std::uint64_t connections = 0;
    std::uint64_t segments = 0;
    std::uint64_t bytes = 0;
    std::uint64_t short_reads = 0;
    std::uint64_t short_writes = 0;
    std::uint64_t would_blocks = 0;  // injected EAGAINs
    std::uint64_t stalls = 0;
    std::uint64_t resets = 0;
    std::uint64_t vanished = 0;
    std::uint64_t refused = 0;
    std::uint64_t accept_errors = 0;
  };

  explicit SimulatedReactor(std::uint64_t seed, const Faults& faults = {});
  ~SimulatedReactor() override;

  std::int64_t wall_clock_ns() const override;

  Result<void> bind(Handle& handle, const Address& address, bool reuse_port) override;
  Result<void> start_listening(Handle& handle, int backlog) override;
  Result<bool> accept(Handle& listener, Handle& accepted, Address* peer) override;
  // Like Linux: the connect is in progress for IP addresses, and done at once for unix sockets.
  Result<bool> connect(Handle& handle, const Address& address) override;
  Result<void> connect_result(Handle& handle) override;
  Result<Address> local_address(const Handle& handle) const override;
  void close(Handle& handle) noexcept override;
  void shutdown_write(Handle& handle) noexcept override;
  void reset_on_close(Handle& handle) noexcept override;

  Io recv(Handle& handle, char* into, std::size_t size) override;
  Io send(Handle& handle, std::span<const iovec> parts) override;
  Io send_file(Handle& handle, int file, std::uint64_t offset, std::size_t size) override;

  std::size_t unsent(const Handle& handle) const noexcept override;

  void turn(Instant until) override;
  void wake() noexcept override { woken_.store(true, std::memory_order_release); }

  // Valid between turns: nothing is ready or in flight, no timer is armed and wake() was not called. A real turn()
  // without a deadline would then block forever; here it returns.
  [[nodiscard]] bool deadlocked() const;
  // A hash over all events and their times.
  [[nodiscard]] std::uint64_t history() const { return history_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  // True if a fault has ended this connection, or will. Otherwise one of its two ends has closed it.
  [[nodiscard]] bool broken_by_fault(const Handle& handle) const;
  [[nodiscard]] std::size_t open_handles() const { return sockets_.size(); }
  // Applies from now on; delays and faults of earlier packets do not change.
  void set_faults(const Faults& faults) { faults_ = faults; }

 private:
  struct Socket;
  struct Packet;
  enum class Kind : std::uint8_t { syn, accepted, data, fin, reset, taken, edge };
  struct Later;

  static Socket& socket_of(const Handle& handle) { return *static_cast<Socket*>(handle.backend); }

  std::uint64_t random();
  std::uint64_t below(std::uint64_t bound) { return random() % bound; }
  bool happens(double probability);
  Duration delay();
  void note(Kind kind, const Socket& socket, std::uint64_t value);

  Result<void> attach(Handle& handle, std::shared_ptr<Socket> socket);
  Socket* find_listener(const Address& address);
  std::uint16_t ephemeral_port();

  // Sends one packet to the other end, after everything that this end has already sent.
  void post(Socket& from, Kind kind, std::string bytes = {}, std::size_t count = 0);
  void post_at(Instant when, Kind kind, std::shared_ptr<Socket> to, std::string bytes = {}, std::size_t count = 0);
  void transmit(Socket& from, std::string bytes);
  void answer_with_reset(Socket& closed);
  void break_connection(Socket& socket);
  void announce_later(Socket& socket, unsigned edge);
  void set_quiet(Handle& handle, bool quiet) noexcept override;

  void arrive();
  void deliver(Packet& packet);
  void deliver_syn(const std::shared_ptr<Socket>& from, std::size_t tries);
  void deliver_reset(Socket& socket);
  void edge(Socket& socket, unsigned bits);
  [[nodiscard]] unsigned poll(const Socket& socket) const;
  void harvest();
  void dispatch(Handle& handle, unsigned bits);
  Io refuse_send(Handle& handle, Socket& socket, bool& refused);
  std::size_t room(const Socket& socket) const;

  std::uint64_t random_;
  Faults faults_;
  Counters counters_;
  Instant start_;
  std::uint64_t history_ = 14695981039346656037u;
  std::atomic<bool> woken_{false};

  int next_fd_ = 1'000'000;  // far above real descriptors, so a system call on one of these fails
  std::uint16_t next_port_ = 32768;
  std::map<int, std::shared_ptr<Socket>> sockets_;  // the open sockets, by descriptor
  std::vector<Socket*> listeners_;

  std::uint64_t next_packet_ = 0;
  std::vector<Packet> packets_;  // a heap, the earliest packet first

  struct Ready {
    std::shared_ptr<Socket> socket;
    unsigned bits;
  };
  std::vector<std::shared_ptr<Socket>> edges_;  // sockets with an unprocessed edge
  std::vector<Ready> batch_;
  Handle* dispatching_ = nullptr;
};

}  // namespace sluice::core
