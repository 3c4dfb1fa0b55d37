#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/reading.h"
#include "core/mailbox.h"
#include "http/client/connection.h"
#include "net/resolver.h"

namespace sluice::http::client {

// The server that a pool connects to.
struct Origin {
  std::string host;  // a name, or an address in digits
  std::uint16_t port = 80;
  bool secure = false;  // connect with TLS
  std::string path{};   // path of a unix socket, instead of host and port
};

struct PoolOptions {
  ConnectionOptions connection{};
  Duration connect_timeout = 5s;  // including name resolution and the TLS handshake
  std::size_t idle = 64;          // maximum number of idle connections
  Duration idle_time = 60s;       // how long an idle connection is kept
  Duration age = 1h;              // an older connection is not used again
  // For a secure origin. `tls_name` is the name in its certificate; empty: the host.
  std::shared_ptr<const net::tls::ClientContext> tls{};
  std::string tls_name{};
};

// The connections of one core to one origin. Each request has a connection of its own. The most recently used
// connection is reused first, so that a pool that is too large shrinks.
class Pool final : Connection::Keeper {
 public:
  struct Counters {
    std::uint64_t opened = 0;
    std::uint64_t open_failures = 0;
    std::uint64_t reused = 0;
    std::uint64_t tls_resumed = 0;  // handshakes that resumed a session
  };
  class Lease;
  enum class Which : std::uint8_t { any, fresh };

  // `resolver` may be null if the host is an address. All references outlive the pool, and the pool outlives its
  // leases.
  Pool(core::Reactor& reactor, core::Mailbox& mailbox, net::Resolver* resolver, Origin origin, PoolOptions options);
  Pool(const Pool&) = delete;
  ~Pool() = default;

  // Returns a connection that is ready for a request, at `until` at the latest. Errors: those of connect();
  // Errc::timed_out; EHOSTUNREACH if the name has no address; Errc::malformed or Errc::closed if the TLS handshake
  // fails.
  [[nodiscard]] core::Async<Result<Lease>> take(Which which = Which::any, Instant until = never);
  // Returns the cause of a failed take(), for the log. Must be called right after it.
  [[nodiscard]] std::string describe(const Error& error) const;

  [[nodiscard]] const Origin& origin() const { return origin_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t idle() const { return idle_.size(); }
  [[nodiscard]] std::size_t lent() const { return lent_; }

 private:
  struct Opened {
    std::unique_ptr<Connection> connection;
    Instant age_end;
  };

  [[nodiscard]] core::Task<Result<Lease>> open(Instant until);
  [[nodiscard]] core::Task<Result<void>> connect(Connection& connection, const core::Address& address,
                                                 Instant deadline);
  [[nodiscard]] core::Task<Result<std::vector<core::Address>>> find_addresses(Instant deadline);
  void give_back(Opened opened);
  void ended(Connection& idle) override;

  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  net::Resolver* const resolver_;
  const Origin origin_;
  const PoolOptions options_;
  net::tls::CoreState tls_;
  net::tls::Resumption resumption_;
  std::vector<Opened> idle_;  // the most recently used one is the last
  std::size_t lent_ = 0;
  Counters counters_;
  std::string tls_failure_;  // of the last failed connection; empty if TLS was not the cause
};

// A connection lent for one request. It returns to the pool if it is reusable, and is closed otherwise.
class Pool::Lease {
 public:
  Lease(Lease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), opened_(std::move(other.opened_)), was_used_(other.was_used_) {}
  Lease& operator=(Lease&&) = delete;
  ~Lease() {
    if (pool_ != nullptr) pool_->give_back(std::move(opened_));
  }

  [[nodiscard]] Connection& operator*() const { return *opened_.connection; }
  [[nodiscard]] Connection* operator->() const { return opened_.connection.get(); }
  // An earlier request has used the connection, so the server may have closed it unnoticed.
  [[nodiscard]] bool was_used() const { return was_used_; }

 private:
  friend class Pool;
  Lease(Pool& pool, Opened opened, bool was_used) : pool_(&pool), opened_(std::move(opened)), was_used_(was_used) {
    ++pool.lent_;
  }

  Pool* pool_;
  Opened opened_;
  bool was_used_;
};

}  // namespace sluice::http::client
