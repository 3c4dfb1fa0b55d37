#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
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
#include "core/timer.h"
#include "gateway/limits/permits.h"
#include "gateway/proxy/balance.h"
#include "gateway/proxy/drains.h"
#include "gateway/proxy/health.h"
#include "gateway/proxy/name_watch.h"
#include "gateway/proxy/options.h"
#include "gateway/proxy/probe.h"
#include "gateway/proxy/retry_budget.h"
#include "gateway/proxy/tunnels.h"
#include "http/client/pool.h"
#include "http/exchange.h"
#include "http/request.h"
#include "net/resolver.h"

namespace sluice::gateway {

class Upstream;

// Why TLS connections to the servers of an upstream cannot be set up.
struct TlsProblem {
  Position position;
  std::string text;
};

// Reads the certificate files.
[[nodiscard]] std::expected<std::shared_ptr<const net::tls::ClientContext>, TlsProblem> make_tls_context(
    const UpstreamOptions& options);

// The part of an [[upstream]] of one configuration that all cores share. Immutable once the cores have it.
struct SharedUpstream {
  // The name of a server in logs and metrics: "127.0.0.1:3000", "https://10.0.0.7:8443", "unix:/run/app.sock". It also
  // identifies the server, and hashing uses it.
  [[nodiscard]] static std::string name_of(const http::client::Origin& origin);

  // The Upstream of each core, which sets and clears its entry. A core uses only its own entry.
  struct Cores {
    std::once_flag sized;
    std::vector<Upstream*> all;
    std::shared_ptr<limits::Shared> busy;  // of the limit of connections
  };
  // A server of the configuration, or one of several addresses of its host name.
  struct Server {
    http::client::Origin origin;
    std::string name;   // of an address: "app.internal:3000/10.0.0.7"
    std::string entry;  // the name of the configuration's server
    std::string host;   // as a Host field names it
    std::string tls_name;
    std::uint32_t weight = 1;
    bool is_backup = false;
    std::shared_ptr<TroubleLog> trouble;

    [[nodiscard]] bool has_host_name() const;
    [[nodiscard]] Server at(const std::string& ip, const std::string& upstream) const;
  };
  // The addresses that are servers of their own, by the name of the configuration's server.
  using Addresses = std::map<std::string, std::vector<Server>, std::less<>>;

  // `before`: the previous version, which may have other servers or another balancing; may be null. Every core then
  // keeps its Upstream and passes this to serve(). `context`: for https servers.
  explicit SharedUpstream(const UpstreamOptions& of, const SharedUpstream* before = nullptr,
                          std::shared_ptr<const net::tls::ClientContext> context = nullptr);
  // Whether a server is given by a host name.
  [[nodiscard]] bool needs_resolver() const;

  const UpstreamOptions options;
  const std::optional<HashKey> hash;
  const StatusRange failures;  // statuses that count as failures
  const StatusRange retry_on;
  const std::shared_ptr<const net::tls::ClientContext> tls;  // null: no server uses TLS
  std::vector<Server> servers;
  std::shared_ptr<Cores> cores;
  std::shared_ptr<Drains> drains = std::make_shared<Drains>();  // set before the cores use this
  net::Resolver* resolver = nullptr;  // set before the cores use this, if needed; outlives this object
};

// The servers of an [[upstream]] as one core uses them.
//
// One core owns the upstream: it probes the servers and decides with Health which of them get requests. All cores count
// the results of their requests and report them to the owner from time to time. The owner sends changes to all cores. A
// request uses the state that its core last received.
//
// The owner also looks up the host names. If a name has several addresses, each of them is a server, in place of the
// name.
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
  // The state of a server that the owner sends to the cores.
  struct Told {
    std::uint64_t id = 0;
    std::uint32_t share = 100;
    bool is_removed = false;
    unsigned permit_core = 0;
    std::uint64_t permit = 0;  // 0: none
  };
  struct AllTold {
    std::vector<Told> servers;
    std::shared_ptr<const SharedUpstream::Addresses> addresses;
  };
  // A core's report to the owner about a server.
  struct Report {
    std::uint64_t id = 0;
    std::uint64_t permit = 0;  // the permit that `trial` is about; 0: none
    std::uint32_t failed = 0;
    bool has_passed = false;
    Health::Trial trial{};
  };
  struct Owner;

  // How long a report may be delayed: if requests have failed, and if all have passed.
  static constexpr Duration report_failures_after = 5ms;
  static constexpr Duration report_passes_after = 250ms;
  static constexpr Duration tell_again_after = 5ms;
  static constexpr Duration permit_lasts = 1s;

  [[nodiscard]] unsigned core() const { return mesh_ != nullptr ? mesh_->core() : 0; }
  [[nodiscard]] unsigned core_count() const { return mesh_ != nullptr ? mesh_->size() : 1; }
  [[nodiscard]] bool is_owner() const { return owner_ != nullptr; }
  [[nodiscard]] Server* find(std::uint64_t id) const;
  // A server of some version, with the entry of that version's configuration.
  struct Place {
    const SharedUpstream::Server& server;
    const SharedUpstream::Server& entry;
  };
  [[nodiscard]] std::vector<Place> places(const SharedUpstream& of) const;
  // The same object for all cores.
  [[nodiscard]] static std::shared_ptr<const SharedUpstream::Addresses> no_addresses();
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
  // Runs `what(upstream)` on a core if it has an Upstream. Returns false if there is no room for the message now.
  template <class What>
  [[nodiscard]] bool run_on(unsigned core, What what);
  void give_back(Server& server, std::uint64_t permit, Health::Trial result);
  void apply(const AllTold& told);
  void forget_gone();

  // The following run only on the owner.
  void hear(const std::vector<Report>& reports);
  void hear_probe(Server& server, std::string_view fault);
  void watch_names();
  void hear_addresses(const std::string& entry, const net::Resolver::Answer& answer);
  // Sends the server's state to all cores.
  void tell_all(const Server& server);
  // Logs the server's new state and sends it to all cores.
  void changed(Server& server, std::string_view why);
  [[nodiscard]] static Told told_of(const Server& server);
  void tell(unsigned core, std::shared_ptr<const AllTold> told);
  void tell_everything(unsigned core);

  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  core::MeshPort* const mesh_;
  std::shared_ptr<const SharedUpstream> shared_;
  const std::shared_ptr<SharedUpstream::Cores> cores_;
  const unsigned owner_core_;
  std::shared_ptr<const SharedUpstream::Addresses> addresses_ = no_addresses();
  std::vector<std::unique_ptr<Server>> servers_;  // in the configuration's order
  std::vector<Candidate*> candidates_;            // the same
  std::vector<std::unique_ptr<Server>> gone_;     // removed servers with unfinished requests
  std::unique_ptr<Owner> owner_;                  // null: another core is the owner
  std::shared_ptr<limits::Permits> busy_;         // counts busy connections; null: no limit until now
  std::uint64_t random_;
  RetryBudget budget_;
  std::uint64_t over_budget_ = 0;
  unsigned permits_ = 0;  // how many permits this core has
  bool reports_ = false;  // the results of requests are to be reported
  bool asks_ = false;     // this core must ask the owner for its whole state
  Instant report_at_ = never;
  struct Tick final : core::Timer {
    explicit Tick(Upstream& upstream)
        : Timer([](core::Timer& timer) noexcept { static_cast<Tick&>(timer).upstream.tick(); }), upstream(upstream) {}
    Upstream& upstream;
  };
  Tick tick_{*this};
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
  bool is_drained = false;
  std::uint32_t named = 0;  // requests whose logs will name the server
  bool is_gone = false;

  // Used by the owner only.
  Health::Server health;
  Health::State logged = Health::State::up;
  std::optional<Probe> probe;
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
