#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/histogram.h"
#include "base/log.h"
#include "base/reading.h"
#include "core/mailbox.h"
#include "core/mesh.h"
#include "core/reactor.h"
#include "core/sharded.h"
#include "core/timer.h"
#include "gateway/limits/permits.h"
#include "gateway/proxy/balance.h"
#include "gateway/proxy/health.h"
#include "gateway/proxy/retry_budget.h"
#include "gateway/proxy/shared_upstream.h"
#include "gateway/proxy/tunnels.h"
#include "gateway/proxy/upstream_keeper.h"
#include "http/client/pool.h"
#include "http/exchange.h"
#include "http/request.h"

namespace sluice::gateway {

// The servers of an [[upstream]] as one core uses them.
//
// One core owns the upstream and has its UpstreamKeeper, which decides which servers get requests. All cores count the
// results of their requests and report them to the owner from time to time. The owner sends changes to all cores. A
// request uses the state that its core last received.
//
// If a host name has several addresses, each of them is a server, in place of the name.
class Upstream {
 public:
  struct Server;
  class Attempt;
  // The servers that a request was sent to.
  class Tried {
   public:
    void add(std::uint64_t id) { ids_[count_++] = id; }
    [[nodiscard]] std::span<const std::uint64_t> ids() const { return {ids_.data(), count_}; }

   private:
    std::array<std::uint64_t, RetryOptions::most_tries + 1> ids_;
    std::size_t count_ = 0;
  };

  // All arguments outlive this object, and it outlives its requests. `mesh`: of this core; null if there are no other
  // cores.
  Upstream(core::Reactor& reactor, core::Mailbox& mailbox, core::MeshPort* mesh,
           std::shared_ptr<const SharedUpstream> shared);
  Upstream(const Upstream&) = delete;
  ~Upstream();

  // Switches to another version. Servers that stay keep their connections, counters and states. A server that is
  // removed finishes its requests, and still receives requests of earlier configurations. Precondition: `shared` was
  // made from the version before.
  void serve(std::shared_ptr<const SharedUpstream> shared);

  // Starts a request at the server that the balancing chooses. Returns nothing if all servers are removed. `of`: the
  // version in the request's configuration, which is the current one or an earlier one.
  [[nodiscard]] std::optional<Attempt> begin(const SharedUpstream& of, const http::Exchange& exchange);
  // Starts the request at another server. `is_free`: the previous server was never reached, so this does not count
  // against the retry budget. Returns nothing if no server is left or the retry limit is reached.
  [[nodiscard]] std::optional<Attempt> begin_again(const SharedUpstream& of, const http::Exchange& exchange,
                                                   const Tried& tried, bool is_free);
  // Whether each attempt must enter() its server before it takes a connection.
  [[nodiscard]] bool limits_connections() const { return shared_->options.connections != 0; }
  // Whether a server is left that is not removed.
  [[nodiscard]] bool has_server() const { return !std::ranges::all_of(candidates_, &Candidate::is_removed); }
  // A drained server gets no requests until it is enabled again. Its requests in progress go on. The name of the
  // configuration's server means all its addresses, also those that it gets later. Returns whether this core owns the
  // upstream and there is such a server.
  bool drain(const std::string& server, bool is_drained);
  // One core's view of a server.
  struct Status {
    std::string name;
    std::string_view state;  // empty: another core owns the upstream
    bool is_drained = false;
    bool is_backup = false;
    std::uint32_t weight = 1;
    std::uint64_t requests = 0;
    std::uint64_t failures = 0;
    std::uint64_t in_flight = 0;
    std::uint64_t connections = 0;

    // Adds the numbers of another core.
    void add(const Status& other);
  };
  [[nodiscard]] std::vector<Status> status() const;
  [[nodiscard]] Readings readings() const;
  [[nodiscard]] core::Reactor& reactor() const { return reactor_; }

  Tunnels tunnels;

 private:
  using AllTold = UpstreamKeeper::AllTold;
  using Told = UpstreamKeeper::Told;
  using Report = UpstreamKeeper::Report;

  // How long a report may be delayed: if requests have failed, and if all have passed.
  static constexpr Duration report_failures_after = 5ms;
  static constexpr Duration report_passes_after = 250ms;
  static constexpr Duration permit_lasts = 1s;

  [[nodiscard]] unsigned core() const { return mesh_ != nullptr ? mesh_->core() : 0; }
  [[nodiscard]] unsigned core_count() const { return mesh_ != nullptr ? mesh_->size() : 1; }
  [[nodiscard]] bool is_owner() const { return owner_core_ == core(); }
  [[nodiscard]] Server* find(std::uint64_t id) const;
  // Makes the list of servers anew. Servers that stay keep everything.
  void arrange();
  [[nodiscard]] bool is_drained(const Server& server) const;
  [[nodiscard]] Server* choose(const SharedUpstream& of, const http::Exchange& exchange,
                               std::span<const std::uint64_t> tried);
  // The servers of an earlier version. A server that was released already is created again.
  [[nodiscard]] std::vector<Candidate*> earlier_candidates(const SharedUpstream& of);
  // Returns a server for which this core has a permit and to which `key` belongs. Returns null if no server qualifies.
  [[nodiscard]] Server* choose_permitted(std::optional<std::uint64_t> key);
  [[nodiscard]] Attempt start(Server& server);

  void limit_connections();
  [[nodiscard]] static limits::Key busy_key(const Server& server);
  void judged(Server& server, bool has_passed);
  void plan_report(Duration after);
  void wake_at(Instant when);
  void tick();
  void send_reports();
  // Runs `what(upstream)` on a core if it has an Upstream.
  template <class What>
  void run_on(unsigned core, What what);
  void give_back(Server& server, std::uint64_t permit, Health::Trial result);
  void apply(const AllTold& told);
  void forget_gone();

  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::MeshPort* const mesh_;
  std::shared_ptr<const SharedUpstream> shared_;
  const std::shared_ptr<SharedUpstream::Cores> cores_;
  const unsigned owner_core_;
  std::shared_ptr<const SharedUpstream::Addresses> addresses_ = SharedUpstream::no_addresses();
  std::vector<std::unique_ptr<Server>> servers_;  // in the configuration's order
  std::vector<Candidate*> candidates_;            // the same
  std::vector<std::unique_ptr<Server>> gone_;     // removed servers with unfinished requests
  std::unique_ptr<UpstreamKeeper> keeper_;        // null: another core is the owner
  std::shared_ptr<limits::Permits> busy_;         // counts busy connections; null: no limit until now
  std::uint64_t random_;
  RetryBudget budget_;
  std::uint64_t over_budget_ = 0;
  unsigned permits_ = 0;  // how many permits this core has
  bool reports_ = false;  // the results of requests are to be reported
  Instant report_at_ = never;
  struct Tick final : core::Timer {
    explicit Tick(Upstream& upstream)
        : Timer([](core::Timer& timer) noexcept { static_cast<Tick&>(timer).upstream.tick(); }), upstream(upstream) {}
    Upstream& upstream;
  };
  Tick tick_{*this};
  const core::Sharded<Upstream>::Entry entry_;
};

struct Upstream::Server : Candidate {
  Server(core::Reactor& reactor, core::Mailbox& mailbox, const SharedUpstream& shared,
         const SharedUpstream::Server& options);

  const std::string upstream;  // the name of the upstream
  const std::string address;   // SharedUpstream::Server::name
  const std::string entry;     // SharedUpstream::Server::entry
  const std::string host;      // as a Host field names it
  const bool is_secure;        // it speaks TLS
  const std::shared_ptr<TroubleLog> trouble;
  http::client::Pool pool;
  std::uint64_t requests = 0;  // sent to this server
  std::uint64_t failures = 0;  // judged as failed, and responses that broke off
  std::uint64_t retries = 0;   // requests that were sent to another server afterwards
  std::uint64_t busy = 0;      // requests that got none of its limited connections
  Tunnels::Counters tunnelled;
  Histogram response_times;  // from the choice of this server for a request to the end of its response's header
  // Since the last report: whether a request passed, and how many failed after the last one that passed.
  bool has_passed = false;
  std::uint32_t failed = 0;
  // For the single request that a server in state `probing` may get.
  std::uint64_t permit = 0;  // the last one received
  bool has_permit = false;
  Instant permit_end{};
  std::uint64_t tried = 0;  // a permit that was used or has expired and must be reported; 0: none
  Health::Trial trial{};
  std::uint32_t named = 0;  // requests whose logs will name the server
  bool is_gone = false;

  [[nodiscard]] Readings readings() const;
};

inline void Upstream::judged(Server& server, bool has_passed) {
  if (!reports_) return;
  if (has_passed) [[likely]] {
    if (std::exchange(server.has_passed, true) && server.failed == 0) return;
    server.failed = 0;
    plan_report(report_passes_after);
  } else {
    ++server.failed;
    plan_report(report_failures_after);
  }
}

// One request at one server, from its start until the object is destroyed.
class Upstream::Attempt {
 public:
  Attempt(Attempt&& other) noexcept
      : upstream_(other.upstream_),
        server_(std::exchange(other.server_, nullptr)),
        permit_(other.permit_),
        has_entered_(other.has_entered_) {}
  Attempt& operator=(Attempt&& other) noexcept {
    if (this == &other) return *this;
    leave();
    server_ = std::exchange(other.server_, nullptr);
    permit_ = other.permit_;
    has_entered_ = other.has_entered_;
    return *this;
  }
  ~Attempt() { leave(); }

  [[nodiscard]] Server& server() const { return *server_; }
  // Waits until the number of busy connections to the server allows another one, which the attempt then counts as.
  // Waits until `until` at the latest. Precondition: limits_connections().
  enum class Entry : std::uint8_t {
    granted,
    queue_full,
    late  // it has waited too long
  };
  [[nodiscard]] core::Task<Entry> enter(Instant until);
  [[nodiscard]] bool has_entered() const { return has_entered_; }
  // Reports, once, whether the server responded as it should. Must not be called for failures of the client or the
  // gateway.
  void judge(bool has_passed) {
    if (!has_passed) ++server_->failures;
    if (const auto permit = std::exchange(permit_, 0); permit != 0) [[unlikely]] {
      upstream_->give_back(*server_, permit, has_passed ? Health::Trial::passed : Health::Trial::failed);
    } else {
      upstream_->judged(*server_, has_passed);
    }
  }

 private:
  friend class Upstream;
  Attempt(Upstream& upstream, Server& server, std::uint64_t permit)
      : upstream_(&upstream), server_(&server), permit_(permit) {
    ++server.in_flight;
  }
  void leave() noexcept;

  Upstream* upstream_;
  Server* server_;
  std::uint64_t permit_;  // 0: none, or already judged
  bool has_entered_ = false;
};

}  // namespace sluice::gateway
