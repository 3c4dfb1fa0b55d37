#include "gateway/proxy/upstream.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"

namespace sluice::gateway {

// ---- The list of servers ----

Upstream::Server::Server(core::Reactor& reactor, core::Mailbox& mailbox, const SharedUpstream& shared,
                         const SharedUpstream::Server& options)
    : upstream(shared.options.name.value),
      address(options.name),
      entry(options.entry),
      host(options.host),
      is_secure(options.origin.secure),
      trouble(options.trouble),
      pool(reactor, mailbox, shared.resolver, options.origin, shared.pool_options(options)) {
  id = hash_of(address);
}

Upstream::Upstream(core::Reactor& reactor, core::Mailbox& mailbox, core::MeshPort* mesh,
                   std::shared_ptr<const SharedUpstream> shared)
    : reactor_(reactor),
      mailbox_(mailbox),
      mesh_(mesh),
      cores_(shared->cores),
      owner_core_(static_cast<unsigned>(hash_of(shared->options.name.value) % core_count())),
      random_(hash_of(shared->options.name.value) + core() + 1),
      budget_(shared->options.retries),
      entry_(cores_->all, core(), *this) {
  if (random_ == 0) random_ = 1;
  SLUICE_ASSERT(cores_->all.cores() == core_count());
  serve(std::move(shared));
}

Upstream::~Upstream() = default;

void Upstream::serve(std::shared_ptr<const SharedUpstream> shared) {
  if (shared == shared_) return;
  shared_ = std::move(shared);
  budget_ = RetryBudget(shared_->options.retries, budget_);
  arrange();
  if (!is_owner()) {
    run_on(owner_core_, [asking = core()](Upstream& owner) { owner.keeper_->tell_everything(asking); });
  } else if (keeper_ != nullptr) {
    keeper_->serve(shared_);
  } else {
    auto tell = [this](unsigned to, std::shared_ptr<const AllTold> told) {
      run_on(to, [told = std::move(told)](Upstream& there) { there.apply(*told); });
    };
    keeper_ = std::make_unique<UpstreamKeeper>(reactor_, mailbox_, core_count(), shared_, std::move(tell));
  }
  wake_at(reactor_.now());
}

void Upstream::arrange() {
  std::vector<std::unique_ptr<Server>> next;
  for (const auto& [options, entry] : shared_->places(*addresses_)) {
    const auto take = [&](std::vector<std::unique_ptr<Server>>& from) -> std::unique_ptr<Server> {
      const auto found =
          std::ranges::find_if(from, [&](const auto& one) { return one && one->address == options.name; });
      return found != from.end() ? std::move(*found) : nullptr;
    };
    std::unique_ptr<Server> server = take(servers_);
    if (!server && (server = take(gone_))) {
      server->is_gone = false;
      server->share = 100;
      server->is_removed = false;
    }
    if (!server) server = std::make_unique<Server>(reactor_, mailbox_, *shared_, options);
    server->weight = entry.weight;
    server->is_backup = entry.is_backup;
    next.push_back(std::move(server));
  }
  std::erase(gone_, nullptr);
  for (auto& server : servers_) {
    if (!server) continue;
    if (std::exchange(server->has_permit, false)) --permits_;
    server->tried = 0;
    server->is_gone = true;
    gone_.push_back(std::move(server));
  }
  servers_ = std::move(next);
  candidates_.clear();
  for (const auto& server : servers_) {
    candidates_.push_back(server.get());
    if (!is_drained(*server)) continue;
    server->share = 0;
    server->is_removed = true;
    if (std::exchange(server->has_permit, false)) --permits_;
  }
  // Each core begins with another server.
  for (unsigned i = 0; i < core(); ++i) (void)Choice(candidates_, {}).round_robin();
  reports_ = servers_.size() > 1 && shared_->options.eject.after != 0;
  limit_connections();
  wake_at(reactor_.now());
}

bool Upstream::is_drained(const Server& server) const {
  return shared_->drains->has(server.address) || shared_->drains->has(server.entry);
}

void Upstream::forget_gone() {
  std::erase_if(gone_, [](const auto& one) { return one->in_flight == 0 && one->named == 0 && one->pool.lent() == 0; });
}

Upstream::Server* Upstream::find(std::uint64_t id) const {
  const auto found = std::ranges::find(servers_, id, [](const auto& one) { return one->id; });
  return found != servers_.end() ? found->get() : nullptr;
}

// ---- Messages between a core and the owner ----

void Upstream::wake_at(Instant when) {
  if (!tick_.armed() || when < tick_.when()) reactor_.timers().schedule(tick_, when);
}

void Upstream::plan_report(Duration after) {
  report_at_ = std::min(report_at_, reactor_.now() + after);
  wake_at(report_at_);
}

void Upstream::give_back(Server& server, std::uint64_t permit, Health::Trial result) {
  if (server.is_gone) return;
  server.tried = permit;
  server.trial = result;
  plan_report({});
}

template <class What>
void Upstream::run_on(unsigned core, What what) {
  if (core == this->core()) return what(*this);
  (void)cores_->all.send(*mesh_, core, std::move(what));  // false: the core is ending and needs no messages
}

void Upstream::send_reports() {
  std::vector<Report> reports;
  for (const auto& server : servers_) {
    if (!server->has_passed && server->failed == 0 && server->tried == 0) continue;
    reports.push_back({.id = server->id,
                       .permit = server->tried,
                       .failed = server->failed,
                       .has_passed = server->has_passed,
                       .trial = server->trial});
  }
  report_at_ = never;
  if (reports.empty()) return;
  // Before they are heard: if this core is the owner, they may bring it the next permit, whose end is reported as well.
  for (const Report& report : reports) {
    Server& server = *find(report.id);
    server.has_passed = false;
    server.failed = 0;
    server.tried = 0;
  }
  run_on(owner_core_, [reports = std::move(reports)](Upstream& owner) { owner.keeper_->hear(reports); });
}

void Upstream::apply(const AllTold& all) {
  if (all.addresses && all.addresses != addresses_) {
    addresses_ = all.addresses;
    arrange();
  }
  for (const Told& told : all.servers) {
    Server* const server = find(told.id);
    if (server == nullptr) continue;
    server->share = told.share;
    server->is_removed = told.is_removed;
    const bool is_mine = told.permit != 0 && told.permit_core == core();
    if (is_mine && told.permit <= server->permit) continue;  // already received
    if (std::exchange(server->has_permit, is_mine)) --permits_;
    if (!is_mine) continue;
    ++permits_;
    server->permit = told.permit;
    server->permit_end = reactor_.now() + permit_lasts;
    wake_at(server->permit_end);
  }
}

void Upstream::tick() {
  const Instant now = reactor_.now();
  for (const auto& server : servers_) {
    if (!server->has_permit || now < server->permit_end) continue;
    server->has_permit = false;
    --permits_;
    give_back(*server, server->permit, Health::Trial::unused);
  }
  if (report_at_ <= now) send_reports();
  forget_gone();
  wake_at(report_at_);
  for (const auto& server : servers_) {
    if (server->has_permit) wake_at(server->permit_end);
  }
}

bool Upstream::drain(const std::string& name, bool is_drained) {
  return keeper_ != nullptr && keeper_->drain(name, is_drained);
}

void Upstream::Status::add(const Status& other) {
  if (state.empty()) state = other.state;
  requests += other.requests;
  failures += other.failures;
  in_flight += other.in_flight;
  connections += other.connections;
}

std::vector<Upstream::Status> Upstream::status() const {
  std::vector<Status> all;
  for (const auto& server : servers_) {
    all.push_back({.name = server->address,
                   .state = keeper_ != nullptr ? keeper_->state_of(server->id) : std::string_view(),
                   .is_drained = is_drained(*server),
                   .is_backup = server->is_backup,
                   .weight = server->weight,
                   .requests = server->requests,
                   .failures = server->failures,
                   .in_flight = server->in_flight,
                   .connections = server->pool.idle() + server->pool.lent()});
  }
  return all;
}

// ---- Metrics ----

Readings Upstream::Server::readings() const {
  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  const auto& connections = pool.counters();
  return {
      counter("sluice_upstream_requests_total", "Requests that were sent to the server.", number(requests)),
      counter("sluice_upstream_failures_total", "Requests that count as failed, and those whose response broke off.",
              number(failures)),
      counter("sluice_upstream_busy_total",
              "Requests that found all `connections` to the server busy and could not wait, or not any longer.",
              number(busy)),
      counter("sluice_upstream_retries_total", "Requests that went to another server after this one failed.",
              number(retries)),
      gauge("sluice_upstream_requests_in_flight", "Requests that the server has not finished.", number(in_flight)),
      counter("sluice_upstream_connections_opened_total", "Connections to the server.", number(connections.opened)),
      counter("sluice_upstream_connection_failures_total", "Attempts to connect to the server that failed.",
              number(connections.open_failures)),
      gauge("sluice_upstream_connections", "Open connections to the server, those without a request too.",
            number(pool.idle() + pool.lent())),
      gauge("sluice_upstream_idle_connections", "Connections to the server that have no request.", number(pool.idle())),
      counter("sluice_upstream_tunnels_total", "Upgrades that the server has agreed to, such as WebSockets.",
              number(tunnelled.begun)),
      gauge("sluice_upstream_tunnels", "Open tunnels.", number(tunnelled.open)),
      histogram("sluice_upstream_response_seconds",
                "From the choice of the server for a request to the end of its response's header.", response_times,
                {})};
}

Readings Upstream::readings() const {
  const std::string of_upstream = label("upstream", shared_->options.name.value);
  Readings all{counter("sluice_upstream_retries_refused_total",
                       "Requests that were not sent to another server because too many were.",
                       static_cast<double>(over_budget_), of_upstream)};
  for (const auto* servers : {&servers_, &gone_}) {
    for (const auto& server : *servers) {
      Readings own = server->readings();
      if (keeper_ != nullptr && !server->is_gone) {
        std::ranges::move(keeper_->readings_of(server->id), std::back_inserter(own));
      }
      append(all, std::move(own), of_upstream + "," + label("server", server->address));
    }
  }
  return all;
}

}  // namespace sluice::gateway
