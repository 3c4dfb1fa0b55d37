#include "gateway/proxy/upstream_keeper.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "gateway/proxy/balance.h"

namespace sluice::gateway {
namespace {

using http::client::Origin;

Health::Options health_options(const UpstreamOptions& options, unsigned cores) {
  const EjectOptions& eject = options.eject;
  Health::Options health{.after = eject.after,
                         .time = eject.time.value,
                         .longest = eject.longest,
                         .percent = eject.percent(),
                         .slow_start = eject.slow_start,
                         .has_probes = options.health.has_value(),
                         .cores = cores};
  if (options.health) {
    health.rise = options.health->rise;
    health.fall = options.health->fall;
  }
  return health;
}

// The Host of probes.
std::string probed_host(const UpstreamOptions& options, const SharedUpstream::Server& server) {
  if (!options.health->host.value.empty()) return options.health->host.value;
  const bool has_tls_name = server.origin.secure && options.tls && !options.tls->name.value.empty();
  return has_tls_name ? options.tls->name.value : server.host;
}

Origin probed_origin(const HealthOptions& health, Origin origin) {
  if (health.port.value != 0) origin.port = static_cast<std::uint16_t>(health.port.value);
  return origin;
}

}  // namespace

UpstreamKeeper::UpstreamKeeper(core::Reactor& reactor, core::Mailbox& mailbox, unsigned cores,
                               std::shared_ptr<const SharedUpstream> shared, Tell tell)
    : reactor_(reactor),
      mailbox_(mailbox),
      cores_(cores),
      tell_(std::move(tell)),
      health_(health_options(shared->options, cores)) {
  serve(std::move(shared));
}

void UpstreamKeeper::serve(std::shared_ptr<const SharedUpstream> shared) {
  shared_ = std::move(shared);
  arrange();
  watch_names();
}

UpstreamKeeper::Server* UpstreamKeeper::find(std::uint64_t id) const {
  const auto found = std::ranges::find(servers_, id, [](const auto& one) { return one->id; });
  return found != servers_.end() ? found->get() : nullptr;
}

bool UpstreamKeeper::is_drained(const Server& server) const {
  return shared_->drains->has(server.address) || shared_->drains->has(server.entry);
}

void UpstreamKeeper::arrange() {
  std::vector<std::unique_ptr<Server>> next;
  std::vector<Health::Server*> healths;
  for (const auto& [options, entry] : shared_->places(*addresses_)) {
    const auto known = std::ranges::find_if(
        servers_, [&name = options.name](const auto& one) { return one != nullptr && one->address == name; });
    auto server = known != servers_.end()
                      ? std::move(*known)
                      : std::make_unique<Server>(hash_of(options.name), options.name, options.entry);
    server->is_drained = is_drained(*server);
    if (const auto& health = shared_->options.health; health && !server->probe) {
      server->probe.emplace(reactor_, mailbox_, shared_->resolver, probed_origin(*health, options.origin),
                            shared_->pool_options(options), *health, probed_host(shared_->options, options),
                            [this, &server = *server](std::string_view fault) { hear_probe(server, fault); });
    }
    healths.push_back(&server->health);
    next.push_back(std::move(server));
  }
  health_.set_servers(std::move(healths));
  servers_ = std::move(next);
  plan_tick();
}

// ---- What it hears ----

void UpstreamKeeper::hear(const std::vector<Report>& reports) {
  const Instant now = reactor_.now();
  for (const Report& report : reports) {
    Server* const server = find(report.id);
    if (server == nullptr) continue;
    if (health_.report(server->health, report.has_passed, report.failed, now)) {
      changed(*server, "requests failed, one after the other");
    }
    if (report.permit != 0 && health_.tried(server->health, report.permit, report.trial, now)) {
      changed(*server, "the one request that it got failed");
    }
  }
}

void UpstreamKeeper::hear_probe(Server& server, std::string_view fault) {
  if (health_.probed(server.health, fault.empty(), reactor_.now())) {
    changed(server, "probes failed: " + std::string(fault));
  } else {
    plan_tick();
  }
}

void UpstreamKeeper::watch_names() {
  const auto find = [this](const std::string& name) {
    return std::ranges::find(shared_->servers, name, &SharedUpstream::Server::name);
  };
  std::erase_if(names_, [&](const auto& watch) { return find(watch.first) == shared_->servers.end(); });
  for (const SharedUpstream::Server& entry : shared_->servers) {
    if (!entry.has_host_name() || shared_->resolver == nullptr) continue;
    names_.try_emplace(entry.name, reactor_, mailbox_, *shared_->resolver, entry.origin.host,
                       [this, name = entry.name](const auto& answer) { hear_addresses(name, answer); });
  }
}

void UpstreamKeeper::hear_addresses(const std::string& name, const net::Resolver::Answer& answer) {
  const auto before = addresses_->find(name);
  const bool is_split = before != addresses_->end();
  const auto ips = answer ? servers_among((*answer)->list, is_split) : std::vector<std::string>();
  const auto ip_of = [](const SharedUpstream::Server& server) -> const std::string& { return server.origin.host; };
  if (is_split ? std::ranges::equal(before->second, ips, {}, ip_of) : ips.empty()) return;

  auto next = std::make_shared<SharedUpstream::Addresses>(*addresses_);
  std::erase_if(*next, [&](const auto& one) { return one.first == name || !names_.contains(one.first); });
  const auto entry = std::ranges::find(shared_->servers, name, &SharedUpstream::Server::name);
  std::string list;
  for (const std::string& ip : ips) {
    list += (list.empty() ? "" : ", ") + ip;
    const auto known = is_split ? std::ranges::find(before->second, ip, ip_of) : decltype(before->second.begin()){};
    const bool stays = is_split && known != before->second.end();
    (*next)[name].push_back(stays ? *known : entry->at(ip, shared_->options.name.value));
  }
  log_error("upstream " + shared_->options.name.value + ", " + name + ": " +
            (ips.empty() ? "the name has no address: " + (answer ? "" : answer.error()) : "its addresses are " + list));
  addresses_ = std::move(next);
  arrange();
  for (unsigned core = 0; core < cores_; ++core) tell_everything(core);
}

void UpstreamKeeper::tick() {
  const Instant now = reactor_.now();
  for (const auto& server : servers_) {
    if (health_.advance(server->health, now)) changed(*server, {});
  }
  plan_tick();
}

void UpstreamKeeper::plan_tick() {
  const Instant when = health_.next();
  if (!tick_.armed() || when < tick_.when()) reactor_.timers().schedule(tick_, when);
}

// ---- What it tells ----

UpstreamKeeper::Told UpstreamKeeper::told_of(const Server& server) {
  const Health::Server& health = server.health;
  return {.id = server.id,
          .share = server.is_drained ? 0 : health.share,
          .is_removed = server.is_drained || health.is_removed,
          .permit_core = health.permit_core,
          .permit = !server.is_drained && health.state == Health::State::probing ? health.permit : 0};
}

void UpstreamKeeper::changed(Server& server, std::string_view why) {
  const Health::Server& health = server.health;
  if (std::exchange(server.logged, health.state) != health.state) {
    const std::string subject = "upstream " + shared_->options.name.value + ", " + server.address + ": ";
    const double seconds = std::chrono::duration<double>(health.lasts).count();
    switch (health.state) {
      case Health::State::ejected:
        log_error(fmt::format("{}ejected for {:g} s: {}", subject, seconds, why));
        break;
      case Health::State::probing:
        log_error(subject + "its ejection is over, and the next request tries it");
        break;
      case Health::State::slow_start:
        log_error(subject + "it answers again, and gets requests little by little");
        break;
      case Health::State::up:
        log_error(subject + "up again");
        break;
    }
  }
  tell_all(server);
  plan_tick();
}

void UpstreamKeeper::tell_all(const Server& server) const {
  auto told = std::make_shared<AllTold>();
  told->servers.push_back(told_of(server));
  for (unsigned core = 0; core < cores_; ++core) tell_(core, told);
}

void UpstreamKeeper::tell_everything(unsigned core) {
  auto told = std::make_shared<AllTold>();
  told->addresses = addresses_;
  for (const auto& server : servers_) told->servers.push_back(told_of(*server));
  tell_(core, std::move(told));
}

bool UpstreamKeeper::drain(const std::string& name, bool is_drained) {
  std::vector<Server*> meant;
  for (const auto& server : servers_) {
    if (server->address == name || server->entry == name) meant.push_back(server.get());
  }
  if (meant.empty()) return false;
  Drains& drains = *shared_->drains;
  const std::string& entry = meant[0]->entry;
  if (entry != name && drains.has(entry)) {
    // From now on its addresses are drained, one by one.
    drains.set(entry, false);
    for (const auto& server : servers_) {
      if (server->entry == entry) drains.set(server->address, true);
    }
  }
  drains.set(name, is_drained);
  for (Server* const server : meant) {
    if (!is_drained) drains.set(server->address, false);
    if (std::exchange(server->is_drained, is_drained) == is_drained) continue;
    // The core that may try it has dropped its permit, and ignores the same one.
    if (!is_drained) {
      (void)health_.tried(server->health, server->health.permit, Health::Trial::unused, reactor_.now());
    }
    log_error("upstream " + shared_->options.name.value + ", " + server->address +
              (is_drained ? ": drained" : ": enabled again"));
    tell_all(*server);
  }
  return true;
}

std::string_view UpstreamKeeper::state_of(std::uint64_t id) const {
  const Server* const server = find(id);
  return server != nullptr ? name_of(server->health.state) : std::string_view();
}

Readings UpstreamKeeper::readings_of(std::uint64_t id) const {
  const Server* const server = find(id);
  if (server == nullptr) return {};
  Readings all;
  const auto add_state = [&](std::string_view name, bool is_in) {
    all.push_back(
        gauge("sluice_upstream_state", "1: the server is in this state.", is_in ? 1 : 0, label("state", name)));
  };
  for (const Health::State state :
       {Health::State::up, Health::State::ejected, Health::State::probing, Health::State::slow_start}) {
    add_state(name_of(state), !server->is_drained && server->health.state == state);
  }
  add_state("drained", server->is_drained);
  all.push_back(counter("sluice_upstream_ejections_total", "Times that the server was ejected.",
                        static_cast<double>(server->health.ejections)));
  if (!server->probe) return all;
  constexpr const char* meaning = "Probes of the server, by what came of them.";
  const auto& [passed, failed] = server->probe->counters();
  const auto probes = [&](std::uint64_t count, const char* result) {
    all.push_back(
        counter("sluice_upstream_probes_total", meaning, static_cast<double>(count), label("result", result)));
  };
  probes(passed, "passed");
  probes(failed, "failed");
  return all;
}

}  // namespace sluice::gateway
