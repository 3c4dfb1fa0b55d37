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

// Where a pool's connections lead.
struct Origin {
  std::string host;  // a name, or an address in digits
  std::uint16_t port = 80;
};

struct PoolOptions {
  ConnectionOptions connection{};
  Duration connect_timeout = 5s;  // the name's resolution included
  std::size_t idle = 64;          // connections that are kept without a request
  Duration idle_time = 60s;       // for which one is kept
  Duration age = 1h;              // after which one is not used again
};

// The connections of one core to one origin. A request has one for itself, and the one that was used last goes first,
// so that a pool which has become too large shrinks.
class Pool final : Connection::Keeper {
 public:
  struct Counters {
    std::uint64_t opened = 0;
    std::uint64_t open_failures = 0;
    std::uint64_t reused = 0;
  };
  class Lease;
  enum class Which : std::uint8_t { any, fresh };

  // `resolver`: for names; null: the host is an address. All outlive the pool, and the pool its leases.
  Pool(core::Reactor& reactor, core::Mailbox& mailbox, net::Resolver* resolver, Origin origin, PoolOptions options);
  Pool(const Pool&) = delete;
  ~Pool() = default;

  // A connection that is ready for a request. Errors: of the connect(), or Errc::timed_out; a name that leads nowhere
  // is EHOSTUNREACH.
  [[nodiscard]] core::Async<Result<Lease>> take(Which which = Which::any);

  [[nodiscard]] const Origin& origin() const { return origin_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t idle() const { return idle_.size(); }
  [[nodiscard]] std::size_t lent() const { return lent_; }

 private:
  struct Opened {
    std::unique_ptr<Connection> connection;
    Instant age_end;
  };

  [[nodiscard]] core::Task<Result<Lease>> open();
  [[nodiscard]] core::Task<Result<std::vector<core::Address>>> find_addresses(Instant deadline);
  void give_back(Opened opened);
  void ended(Connection& idle) override;

  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  net::Resolver* const resolver_;
  const Origin origin_;
  const PoolOptions options_;
  std::vector<Opened> idle_;  // the one that was used last is the last
  std::size_t lent_ = 0;
  Counters counters_;
};

// One connection, for one request. It goes back where it can be used again, and closes otherwise.
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
  // Another request came before: the server may have closed it without our knowing.
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
