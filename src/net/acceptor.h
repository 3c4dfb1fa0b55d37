#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "core/address.h"
#include "core/reactor.h"
#include "core/task.h"

namespace sluice::net {

// Where a server listens, and whether with TLS.
struct Listening {
  core::Address address;
  bool secure = false;
  int shared = -1;  // a socket that listens on the address already, for all cores; -1: each core binds its own
};

struct AcceptorOptions {
  int descriptors =
      INT_MAX;  // connections with this descriptor number or a higher one are closed; the rest is reserved
  TroubleLog* trouble = nullptr;  // logs that no descriptors are left for connections; outlives the acceptor
};

// The listeners of one core's server. Accepts clients into connections that the owner prepares.
class Acceptor {
 public:
  enum class Dropped : std::uint8_t { no_descriptor, no_memory };

  // The server that the connections belong to. Only next_handle() and accepted() may throw, and only std::bad_alloc.
  class Owner {
   public:
    // Returns the handle of a connection that is not open yet. Returns the same one until accepted() or dropped().
    [[nodiscard]] virtual core::Handle& next_handle() = 0;
    // The handle of the prepared connection is open.
    virtual void accepted(const core::Address& peer, bool secure) = 0;
    // Closes the prepared connection if there is one. It may be open: a client was accepted and cannot be served.
    virtual void dropped(Dropped why) noexcept = 0;

   protected:
    ~Owner() = default;
  };

  Acceptor(core::Reactor& reactor, Owner& owner, const AcceptorOptions& options);
  Acceptor(const Acceptor&) = delete;
  ~Acceptor();

  // Starts to accept at once. Several cores may listen on the same address.
  [[nodiscard]] Result<core::Address> listen(const Listening& wanted);
  [[nodiscard]] Result<core::Address> listen(const core::Address& address, bool secure = false) {
    return listen({.address = address, .secure = secure});
  }
  // Binds the address unless it is already bound. Clients cannot connect to it until listen_on() includes it.
  [[nodiscard]] Result<core::Address> bind(const Listening& wanted);
  [[nodiscard]] Result<core::Address> bind(const core::Address& address) { return bind({.address = address}); }
  // From now on the acceptor listens on exactly these addresses, which must all be bound. A removed address still
  // accepts the clients already in its queue. Returns an error if listening on an address fails; the acceptor still
  // listens on the others. No effect after stop().
  [[nodiscard]] Result<void> listen_on(std::span<const Listening> wanted);
  void set_options(const AcceptorOptions& options) { options_ = options; }
  // Stops accepting and closes all listeners. Clients in their queues are reset, except in those of shared sockets.
  // Must not be called by the owner's functions above.
  void stop() noexcept;

 private:
  struct Listener;

  Result<void> start(Listener& listener);
  void end(Listener& listener);
  core::Task<void> accept(Listener& listener);
  void tell_of_descriptors();

  core::Reactor& reactor_;
  Owner& owner_;
  AcceptorOptions options_;
  bool stopped_ = false;
  std::vector<std::unique_ptr<Listener>> listeners_;
  core::TaskGroup accepting_;
};

}  // namespace sluice::net
