#include "gateway/proxy/upstream.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>

#include <fmt/format.h>

#include "core/address.h"
#include "gateway/proxy/hash_key.h"
#include "http/target.h"

namespace sluice::gateway {

using http::client::Origin;

std::expected<Origin, std::string> parse_server(std::string_view text) {
  constexpr const char* wanted =
      "must be a server, as \"http://127.0.0.1:3000\", \"https://billing.internal\" or \"unix:/run/app.sock\" is";
  Origin origin;
  if (text.starts_with("unix:")) {
    origin.path = text.substr(5);
    if (!origin.path.starts_with('/') || !core::Address::from_path(origin.path)) {
      return std::unexpected("must have an absolute path of at most 107 bytes behind \"unix:\"");
    }
    return origin;
  }
  const std::string_view scheme = text.substr(0, text.find("://") + 3);
  origin.secure = scheme == "https://";
  if (!origin.secure && scheme != "http://") return std::unexpected(wanted);
  origin.port = origin.secure ? 443 : 80;
  text.remove_prefix(scheme.size());
  if (text.ends_with('/')) text.remove_suffix(1);
  if (text.find_first_of("/?#") != text.npos)
    return std::unexpected("must end behind the port: paths are for [[route]]");
  if (!http::is_authority(text, http::PortIs::optional)) return std::unexpected(wanted);
  const std::size_t colon = text.find_last_of(":]");
  if (colon != text.npos && text[colon] == ':') {
    const std::string_view port = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), origin.port);
    if (error != std::errc{} || end != port.data() + port.size() || origin.port == 0) {
      return std::unexpected("must have a port from 1 to 65535");
    }
    text = text.substr(0, colon);
  }
  if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
  if (text.contains(':') && !core::Address::from_ip(text, origin.port)) return std::unexpected(wanted);
  origin.host = text;
  return origin;
}

std::string ServerEntry::check(std::string_view text) {
  const auto parsed = parse_server(text);
  return parsed ? std::string() : parsed.error();
}

bool UpstreamOptions::is_secure() const {
  return std::ranges::any_of(servers, [](const auto& server) { return server.url.value.starts_with("https://"); });
}

std::string UpstreamTlsOptions::check_tls_name(std::string_view text) {
  const bool is_host = http::is_authority(text, http::PortIs::optional) && !text.contains(':');
  return is_host ? std::string() : "must be a host's name, as \"billing.internal\" is";
}

std::string UpstreamOptions::check_name(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return plain ? std::string() : "takes letters, digits, '_' and '-'";
}

namespace {

http::client::PoolOptions pool_options(const SharedUpstream& shared, const SharedUpstream::Server& server) {
  const UpstreamOptions& options = shared.options;
  return {.connection = {.write_timeout = options.write_timeout,
                         .head_timeout = options.response_timeout,
                         .idle_timeout = options.idle_timeout},
          .connect_timeout = options.connect_timeout,
          .idle = options.keep,
          .idle_time = options.keep_for,
          .age = options.keep_age,
          .tls = shared.tls,
          .tls_name = server.tls_name};
}

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

// The hash that chooses the server, if the upstream balances by hash.
std::optional<std::uint64_t> key_of(const SharedUpstream& of, const http::Exchange& exchange) {
  if (of.options.balance.value != Balance::hash || !of.hash) return std::nullopt;
  return value_of(*of.hash, exchange).transform(hash_of);
}

std::string authority_of(const Origin& origin) {
  const bool is_ipv6 = origin.host.contains(':');
  return (is_ipv6 ? "[" + origin.host + "]" : origin.host) + ":" + std::to_string(origin.port);
}

// As a Host field names the server: without its scheme's default port.
std::string host_of(const Origin& origin) {
  if (!origin.path.empty()) return "localhost";
  std::string host = authority_of(origin);
  if (origin.port == (origin.secure ? 443 : 80)) host.resize(host.rfind(':'));
  return host;
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

// ---- The part that all cores share ----

std::string SharedUpstream::name_of(const Origin& origin) {
  if (!origin.path.empty()) return "unix:" + origin.path;
  return (origin.secure ? "https://" : "") + authority_of(origin);
}

SharedUpstream::SharedUpstream(const UpstreamOptions& of, const SharedUpstream* before,
                               std::shared_ptr<const net::tls::ClientContext> context)
    : options(of),
      hash(HashKey::parse(options.hash.value)),
      failures(StatusRange::parse(options.eject.status).value_or(StatusRange{})),
      retry_on(StatusRange::parse(options.retry_on.value).value_or(StatusRange{})),
      tls(std::move(context)),
      cores(before != nullptr ? before->cores : std::make_shared<Cores>()) {
  SLUICE_ASSERT(tls != nullptr || !options.is_secure());
  for (const ServerEntry& entry : options.servers) {
    Server server{.origin = *parse_server(entry.url.value), .weight = entry.weight, .is_backup = entry.backup};
    server.name = server.entry = name_of(server.origin);
    server.host = host_of(server.origin);
    server.tls_name = options.tls && !options.tls->name.value.empty() ? options.tls->name.value : server.origin.host;
    if (before != nullptr) {
      const auto same = std::ranges::find(before->servers, server.name, &Server::name);
      if (same != before->servers.end()) server.trouble = same->trouble;
    }
    if (!server.trouble) {
      server.trouble = std::make_shared<TroubleLog>("upstream " + options.name.value + ", " + server.name);
    }
    servers.push_back(std::move(server));
  }
}

bool SharedUpstream::Server::has_host_name() const {
  return origin.path.empty() && !core::Address::from_ip(origin.host, 1);
}

SharedUpstream::Server SharedUpstream::Server::at(const std::string& ip, const std::string& upstream) const {
  Server server = *this;
  server.origin.host = ip;
  server.name += "/" + ip;
  server.trouble = std::make_shared<TroubleLog>("upstream " + upstream + ", " + server.name);
  return server;
}

bool SharedUpstream::needs_resolver() const { return std::ranges::any_of(servers, &Server::has_host_name); }

std::expected<std::shared_ptr<const net::tls::ClientContext>, TlsProblem> make_tls_context(
    const UpstreamOptions& options) {
  const UpstreamTlsOptions tls = options.tls.value_or(UpstreamTlsOptions{});
  using Verify = net::tls::ClientOptions::Verify;
  auto made = net::tls::ClientContext::make({.verify = tls.verify.value ? Verify::full : Verify::none,
                                             .ca_file = tls.ca.value,
                                             .crl = tls.crl.value,
                                             .certificate = tls.cert.value,
                                             .key = tls.key.value,
                                             .alpn = {"http/1.1"}});
  if (made) return std::move(*made);
  using File = net::tls::Problem::File;
  const Position position = made.error().file == File::certificate ? tls.cert.position
                            : made.error().file == File::key       ? tls.key.position
                                                                   : tls.ca.position;
  return std::unexpected(TlsProblem{position.line != 0 ? position : options.position, made.error().text});
}

// ---- The list of servers ----

struct Upstream::Owner {
  Owner(const UpstreamOptions& options, unsigned cores) : health(health_options(options, cores)), is_behind(cores) {}

  Health health;
  std::vector<bool> is_behind;             // by core: a message to it could not be sent
  std::map<std::string, NameWatch> names;  // by the name of the configuration's server
};

Upstream::Server::Server(core::Reactor& reactor, core::Mailbox& mailbox, const SharedUpstream& shared,
                         const SharedUpstream::Server& options)
    : upstream(shared.options.name.value),
      address(options.name),
      entry(options.entry),
      host(options.host),
      is_secure(options.origin.secure),
      trouble(options.trouble),
      pool(reactor, mailbox, shared.resolver, options.origin, pool_options(shared, options)) {
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
      budget_(shared->options.retries) {
  if (random_ == 0) random_ = 1;
  std::call_once(cores_->sized, [&] {
    cores_->all.resize(core_count());
    cores_->busy = std::make_shared<limits::Shared>(core_count());
  });
  cores_->all[core()] = this;
  if (owner_core_ == core()) owner_ = std::make_unique<Owner>(shared->options, core_count());
  serve(std::move(shared));
}

Upstream::~Upstream() { cores_->all[core()] = nullptr; }

void Upstream::serve(std::shared_ptr<const SharedUpstream> shared) {
  if (shared == shared_) return;
  shared_ = std::move(shared);
  budget_ = RetryBudget(shared_->options.retries, budget_);
  arrange();
  if (is_owner()) {
    watch_names();
  } else {
    asks_ = true;
  }
  wake_at(reactor_.now());
}

std::vector<Upstream::Place> Upstream::places(const SharedUpstream& of) const {
  std::vector<Place> all;
  for (const SharedUpstream::Server& entry : of.servers) {
    const auto addresses = addresses_->find(entry.name);
    if (addresses == addresses_->end()) {
      all.emplace_back(entry, entry);
    } else {
      for (const SharedUpstream::Server& server : addresses->second) all.emplace_back(server, entry);
    }
  }
  return all;
}

std::shared_ptr<const SharedUpstream::Addresses> Upstream::no_addresses() {
  static const auto none = std::make_shared<const SharedUpstream::Addresses>();
  return none;
}

void Upstream::arrange() {
  const std::vector<Place> wanted = places(*shared_);
  std::vector<std::unique_ptr<Server>> next;
  for (const auto& [options, entry] : wanted) {
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
      server->health = {};
      server->logged = Health::State::up;
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
    server->probe.reset();
    server->is_gone = true;
    gone_.push_back(std::move(server));
  }
  servers_ = std::move(next);
  candidates_.clear();
  for (const auto& server : servers_) {
    candidates_.push_back(server.get());
    server->is_drained = is_drained(*server);
    if (!server->is_drained) continue;
    server->share = 0;
    server->is_removed = true;
  }
  // Each core begins with another server.
  for (unsigned i = 0; i < core(); ++i) (void)Choice(candidates_, {}).round_robin();
  reports_ = servers_.size() > 1 && shared_->options.eject.after != 0;
  limit_connections();
  if (is_owner()) {
    std::vector<Health::Server*> healths;
    for (const auto& server : servers_) healths.push_back(&server->health);
    owner_->health.set_servers(std::move(healths));
    const auto& health = shared_->options.health;
    for (std::size_t i = 0; health && i < servers_.size(); ++i) {
      Server& server = *servers_[i];
      if (server.probe) continue;
      const SharedUpstream::Server& options = wanted[i].server;
      server.probe.emplace(reactor_, mailbox_, shared_->resolver, probed_origin(*health, options.origin),
                           pool_options(*shared_, options), *health, probed_host(shared_->options, options),
                           [this, &server](std::string_view fault) { hear_probe(server, fault); });
    }
  }
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

// ---- The choice of a server ----

Upstream::Server* Upstream::choose_permitted(std::optional<std::uint64_t> key) {
  for (const auto& server : servers_) {
    if (!server->has_permit) continue;
    // The permit is only for a request that could go to the server if it were up.
    const auto share = std::exchange(server->share, 100);
    const Choice choice(candidates_, {});
    const bool is_chosen = key ? choice.hash(*key) == server.get() : choice.may_be(*server);
    server->share = share;
    if (is_chosen) return server.get();
  }
  return nullptr;
}

std::vector<Candidate*> Upstream::earlier_candidates(const SharedUpstream& of) {
  std::vector<Candidate*> candidates;
  for (const auto& [options, entry] : places(of)) {
    Server* server = nullptr;
    for (const auto* servers : {&servers_, &gone_}) {
      const auto found = std::ranges::find_if(*servers, [&](const auto& one) { return one->address == options.name; });
      if (found != servers->end()) server = found->get();
    }
    if (server == nullptr) {
      gone_.push_back(std::make_unique<Server>(reactor_, mailbox_, of, options));
      server = gone_.back().get();
      server->weight = entry.weight;
      server->is_backup = entry.is_backup;
      server->is_gone = true;
    }
    candidates.push_back(server);
  }
  wake_at(reactor_.now());  // releases the servers that are not chosen
  return candidates;
}

Upstream::Server* Upstream::choose(const SharedUpstream& of, const http::Exchange& exchange,
                                   std::span<const std::uint64_t> tried) {
  const auto key = key_of(of, exchange);
  const bool is_served = &of == shared_.get();
  if (permits_ != 0 && tried.empty() && is_served) [[unlikely]] {
    if (Server* const permitted = choose_permitted(key)) return permitted;
  }
  std::vector<Candidate*> earlier;
  if (!is_served) [[unlikely]]
    earlier = earlier_candidates(of);
  const Choice choice(is_served ? candidates_ : earlier, tried);
  Candidate* const chosen = key                                          ? choice.hash(*key)
                            : of.options.balance.value == Balance::least ? choice.least(random_)
                                                                         : choice.round_robin();
  return static_cast<Server*>(chosen);
}

Upstream::Attempt Upstream::start(Server& server) {
  std::uint64_t permit = 0;
  if (server.has_permit) [[unlikely]] {
    server.has_permit = false;
    --permits_;
    permit = server.permit;
  }
  return {*this, server, permit};
}

std::optional<Upstream::Attempt> Upstream::begin(const SharedUpstream& of, const http::Exchange& exchange) {
  budget_.add_request();
  Server* const first = choose(of, exchange, {});
  if (first == nullptr) return std::nullopt;
  return start(*first);
}

std::optional<Upstream::Attempt> Upstream::begin_again(const SharedUpstream& of, const http::Exchange& exchange,
                                                       const Tried& tried, bool is_free) {
  if (tried.ids().size() > of.options.retries.tries) return std::nullopt;
  Server* const next = choose(of, exchange, tried.ids());
  if (next == nullptr) return std::nullopt;
  if (!is_free && !budget_.take_retry()) {
    ++over_budget_;
    return std::nullopt;
  }
  return start(*next);
}

void Upstream::Attempt::leave() noexcept {
  if (server_ == nullptr) return;
  if (permit_ != 0) upstream_->give_back(*server_, permit_, Health::Trial::unused);
  --server_->in_flight;
  if (std::exchange(has_entered_, false)) [[unlikely]]
    upstream_->busy_->give_back(busy_key(*server_));
  if (server_->is_gone) upstream_->wake_at(upstream_->reactor_.now());
}

// ---- The limit of connections ----

void Upstream::limit_connections() {
  constexpr std::uint32_t most_servers = 4096;  // with those of earlier versions
  const UpstreamOptions& options = shared_->options;
  if (options.connections == 0 && busy_ == nullptr) return;
  SLUICE_ASSERT(mesh_ != nullptr);
  const limits::Room room{
      .requests = options.connections != 0 ? options.connections : std::numeric_limits<std::uint32_t>::max(),
      .queue = options.queue.value,
      .wait = options.wait.value};
  if (busy_ == nullptr) busy_ = limits::Permits::of(cores_->busy, reactor_, *mesh_, room, most_servers);
  busy_->serve(room, this);
}

limits::Key Upstream::busy_key(const Server& server) {
  return {.low = server.id | 1, .high = server.id * 0x9e3779b97f4a7c15};
}

core::Task<Upstream::Attempt::Entry> Upstream::Attempt::enter(Instant until) {
  using Answer = limits::Permits::Answer;
  const Answer answer = co_await upstream_->busy_->take(busy_key(*server_), until);
  has_entered_ = answer == Answer::granted;
  if (has_entered_ || answer == Answer::alone) co_return Entry::granted;
  ++server_->busy;
  co_return answer == Answer::late ? Entry::late : Entry::queue_full;
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
bool Upstream::run_on(unsigned core, What what) {
  if (core == this->core()) {
    what(*this);
    return true;
  }
  if (!mesh_->open(core)) return true;  // the core is ending and needs no messages
  auto there = [cores = cores_, what = std::move(what)](core::MeshPort& here) mutable {
    if (Upstream* const upstream = cores->all[here.core()]) what(*upstream);
  };
  return mesh_->try_post(core, std::move(there));
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
  auto hear_them = [reports](Upstream& owner) { owner.hear(reports); };
  if (!run_on(owner_core_, std::move(hear_them))) return plan_report(report_failures_after);
  for (const Report& report : reports) {
    Server& server = *find(report.id);
    server.has_passed = false;
    server.failed = 0;
    // If this core is the owner, the report may already have brought it the next permit. The end of that permit needs
    // its own report.
    if (server.tried == report.permit) server.tried = 0;
  }
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
  if (asks_) {
    auto answer = [asking = core()](Upstream& owner) { owner.tell_everything(asking); };
    asks_ = !run_on(owner_core_, std::move(answer));
    if (asks_) wake_at(now + tell_again_after);
  }
  if (is_owner()) {
    for (const auto& server : servers_) {
      if (owner_->health.advance(server->health, now)) changed(*server, {});
    }
    for (unsigned i = 0; i < core_count(); ++i) {
      if (owner_->is_behind[i]) tell_everything(i);
    }
    wake_at(owner_->health.next());
  }
  forget_gone();
  wake_at(report_at_);
  for (const auto& server : servers_) {
    if (server->has_permit) wake_at(server->permit_end);
  }
}

// ---- The owner ----

void Upstream::hear(const std::vector<Report>& reports) {
  if (!is_owner()) return;
  const Instant now = reactor_.now();
  for (const Report& report : reports) {
    Server* const server = find(report.id);
    if (server == nullptr) continue;
    if (owner_->health.report(server->health, report.has_passed, report.failed, now)) {
      changed(*server, "requests failed, one after the other");
    }
    if (report.permit != 0 && owner_->health.tried(server->health, report.permit, report.trial, now)) {
      changed(*server, "the one request that it got failed");
    }
  }
}

void Upstream::hear_probe(Server& server, std::string_view fault) {
  if (owner_->health.probed(server.health, fault.empty(), reactor_.now())) {
    changed(server, "probes failed: " + std::string(fault));
  } else {
    wake_at(owner_->health.next());
  }
}

void Upstream::watch_names() {
  const auto find = [this](const std::string& name) {
    return std::ranges::find(shared_->servers, name, &SharedUpstream::Server::name);
  };
  std::erase_if(owner_->names, [&](const auto& watch) { return find(watch.first) == shared_->servers.end(); });
  for (const SharedUpstream::Server& entry : shared_->servers) {
    if (!entry.has_host_name() || shared_->resolver == nullptr) continue;
    owner_->names.try_emplace(entry.name, reactor_, mailbox_, *shared_->resolver, entry.origin.host,
                              [this, name = entry.name](const auto& answer) { hear_addresses(name, answer); });
  }
}

void Upstream::hear_addresses(const std::string& name, const net::Resolver::Answer& answer) {
  const auto before = addresses_->find(name);
  const bool is_split = before != addresses_->end();
  const auto ips = answer ? servers_among((*answer)->list, is_split) : std::vector<std::string>();
  const auto ip_of = [](const SharedUpstream::Server& server) -> const std::string& { return server.origin.host; };
  if (is_split ? std::ranges::equal(before->second, ips, {}, ip_of) : ips.empty()) return;

  auto next = std::make_shared<SharedUpstream::Addresses>(*addresses_);
  std::erase_if(*next, [&](const auto& one) { return one.first == name || !owner_->names.contains(one.first); });
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
  for (unsigned i = 0; i < core_count(); ++i) tell_everything(i);
}

Upstream::Told Upstream::told_of(const Server& server) {
  const Health::Server& health = server.health;
  return {.id = server.id,
          .share = server.is_drained ? 0 : health.share,
          .is_removed = server.is_drained || health.is_removed,
          .permit_core = health.permit_core,
          .permit = !server.is_drained && health.state == Health::State::probing ? health.permit : 0};
}

void Upstream::changed(Server& server, std::string_view why) {
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
  wake_at(owner_->health.next());
}

void Upstream::tell_all(const Server& server) {
  auto told = std::make_shared<AllTold>();
  told->servers.push_back(told_of(server));
  for (unsigned i = 0; i < core_count(); ++i) tell(i, told);
}

bool Upstream::drain(const std::string& name, bool is_drained) {
  if (!is_owner()) return false;
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
    log_error("upstream " + shared_->options.name.value + ", " + server->address +
              (is_drained ? ": drained" : ": enabled again"));
    tell_all(*server);
  }
  return true;
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
                   .state = is_owner() ? name_of(server->health.state) : std::string_view(),
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

void Upstream::tell(unsigned core, std::shared_ptr<const AllTold> told) {
  auto hear_it = [told = std::move(told)](Upstream& upstream) { upstream.apply(*told); };
  if (run_on(core, std::move(hear_it))) return;
  owner_->is_behind[core] = true;
  wake_at(reactor_.now() + tell_again_after);
}

void Upstream::tell_everything(unsigned core) {
  if (!is_owner()) return;
  owner_->is_behind[core] = false;
  auto told = std::make_shared<AllTold>();
  told->addresses = addresses_;
  for (const auto& server : servers_) told->servers.push_back(told_of(*server));
  tell(core, std::move(told));
}

// ---- Metrics ----

Readings Upstream::readings() const {
  const std::string of_upstream = label("upstream", shared_->options.name.value);
  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  Readings all{counter("sluice_upstream_retries_refused_total",
                       "Requests that were not sent to another server because too many were.", number(over_budget_),
                       of_upstream)};
  const auto add = [&](const Server& server) {
    const auto& connections = server.pool.counters();
    Readings own = {
        counter("sluice_upstream_requests_total", "Requests that were sent to the server.", number(server.requests)),
        counter("sluice_upstream_failures_total", "Requests that count as failed, and those whose response broke off.",
                number(server.failures)),
        counter("sluice_upstream_busy_total",
                "Requests that found all `connections` to the server busy and could not wait, or not any longer.",
                number(server.busy)),
        counter("sluice_upstream_retries_total", "Requests that went to another server after this one failed.",
                number(server.retries)),
        gauge("sluice_upstream_requests_in_flight", "Requests that the server has not finished.",
              number(server.in_flight)),
        counter("sluice_upstream_connections_opened_total", "Connections to the server.", number(connections.opened)),
        counter("sluice_upstream_connection_failures_total", "Attempts to connect to the server that failed.",
                number(connections.open_failures)),
        gauge("sluice_upstream_connections", "Open connections to the server, those without a request too.",
              number(server.pool.idle() + server.pool.lent())),
        gauge("sluice_upstream_idle_connections", "Connections to the server that have no request.",
              number(server.pool.idle())),
        counter("sluice_upstream_tunnels_total", "Upgrades that the server has agreed to, such as WebSockets.",
                number(server.tunnelled.begun)),
        gauge("sluice_upstream_tunnels", "Open tunnels.", number(server.tunnelled.open)),
        histogram("sluice_upstream_response_seconds",
                  "From the choice of the server for a request to the end of its response's header.",
                  server.response_times, {})};
    if (is_owner() && !server.is_gone) {
      const auto add_state = [&](std::string_view name, bool is_in) {
        own.push_back(
            gauge("sluice_upstream_state", "1: the server is in this state.", is_in ? 1 : 0, label("state", name)));
      };
      for (const Health::State state :
           {Health::State::up, Health::State::ejected, Health::State::probing, Health::State::slow_start}) {
        add_state(name_of(state), !server.is_drained && server.health.state == state);
      }
      add_state("drained", server.is_drained);
      own.push_back(counter("sluice_upstream_ejections_total", "Times that the server was ejected.",
                            number(server.health.ejections)));
    }
    if (server.probe) {
      const auto& [passed, failed] = server.probe->counters();
      own.push_back(counter("sluice_upstream_probes_total", "Probes of the server, by what came of them.",
                            number(passed), label("result", "passed")));
      own.push_back(counter("sluice_upstream_probes_total", "Probes of the server, by what came of them.",
                            number(failed), label("result", "failed")));
    }
    append(all, std::move(own), of_upstream + "," + label("server", server.address));
  };
  for (const auto& server : servers_) add(*server);
  for (const auto& server : gone_) add(*server);
  return all;
}

}  // namespace sluice::gateway
