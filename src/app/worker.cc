#include "app/worker.h"

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <malloc.h>

#include "base/contains.h"
#include "core/next_turn.h"
#include "core/slab.h"
#include "core/sleep.h"
#include "core/usable_cores.h"

namespace sluice::app {
namespace {

// How long shutdown waits, beyond `grace`, for cancel requests to reach the databases.
constexpr Duration for_cancels = 200ms;
// How often to look whether replaced parts are still in use.
constexpr Duration look_for_unused = 1s;
// How long the request log of a replaced configuration may take to write its remaining rows.
constexpr Duration log_patience = 60s;
constexpr Duration log_pause = 200ms;
// If more removed routes than this have counts, these counts are dropped.
constexpr std::size_t most_removed_routes = 1000;
// How often to check for memory to give back, and the least amount worth it.
constexpr Duration trim_every = 5s;
constexpr std::uint64_t worth_trimming = 8 << 20;

Redaction redaction(const Options& options) {
  std::vector<std::string> names = options.names_of_keys();
  if (options.request_log)
    names.insert(names.end(), options.request_log->redact.begin(), options.request_log->redact.end());
  return Redaction(names);
}

// The memory limit of one core for bodies.
std::uint64_t body_memory(const ServerOptions& options, unsigned cores) {
  const std::uint64_t configured = options.body_memory.bytes;
  return (configured != 0 ? configured : core::usable_memory() / 4) / cores;
}

std::shared_ptr<const http::TrustedProxies> proxies_of(const std::vector<Located<std::string>>& addresses,
                                                       const std::string& client_field = {}) {
  if (addresses.empty()) return nullptr;
  auto proxies = std::make_shared<http::TrustedProxies>();
  for (const auto& proxy : addresses) {
    if (!proxies->addresses.add(proxy.value)) proxies->unix_sockets = true;
  }
  proxies->addresses.seal();
  proxies->client_field = client_field;
  return proxies;
}

http::ServerOptions server_options(const Site& site, unsigned cores, const runtime::Descriptors& descriptors) {
  const ServerOptions& options = site.plan()->options.server;
  return {.header_limit = options.header_limit,
          .target_limit = options.target_limit.value,
          .field_limit = options.field_limit,
          .body_limit = options.body_limit,
          .most_body = site.plan()->most_body,
          .body_memory = body_memory(options, cores),
          .header_timeout = options.header_timeout,
          .body_timeout = options.body_timeout,
          .idle_timeout = options.idle_timeout,
          .write_timeout = options.write_timeout,
          .slowest_client = static_cast<std::uint32_t>(options.slowest_client),
          .connections = options.connections.value,
          .descriptors = descriptors.most,
          .trouble = descriptors.trouble,
          .answer_fields = site.answer_fields(),
          .http1 = options.http1,
          .http2 = options.http2,
          .http2_streams = options.http2_streams,
          .http2_resets = options.http2_resets,
          .trusted_proxies = proxies_of(options.trusted_proxies, options.client_header.value),
          .proxy_protocol = proxies_of(options.proxy_protocol)};
}

}  // namespace

Worker::Worker(core::Core& core, const std::shared_ptr<const Plan>& plan, core::BlockingPool& threads, Logs& logs,
               const runtime::Descriptors& descriptors)
    : core_(core),
      here_{core.reactor(), core.mailbox(), core.mesh(), threads},
      redaction_(redaction(plan->options)),
      logs_(logs),
      descriptors_(descriptors),
      released_(core.reactor()),
      site_(std::make_unique<Site>(here_, released_, plan)),
      server_(core.reactor(), *this, server_options(*site_, core.mesh().size(), descriptors_), this) {
  tasks_.spawn(give_memory_back());
  tasks_.spawn(forget_when_unpinned());
  open_access_log(plan->options.server);
  site_->build();
  serve(*site_);
}

Worker::~Worker() = default;

// The allocators keep freed memory, so the process would never return the memory of a peak of bodies. malloc_trim()
// runs on another thread because it takes milliseconds.
core::Task<void> Worker::give_memory_back() {
  for (;;) {
    co_await core::Sleep(core_.reactor(), core_.reactor().now() + trim_every);
    if (server_.counters().bodies.peak < server_.counters().bodies.held + worth_trimming) continue;
    server_.forget_peak_of_bodies();
    for (std::size_t bytes = core::slab_granule; bytes <= core::slab_max_bytes; bytes += core::slab_granule) {
      (void)core::slab_trim(bytes);
      co_await core::NextTurn(core_.reactor());
    }
    try {
      auto work = [] { (void)::malloc_trim(0); };
      (void)co_await here_.threads.run(core_.mailbox(), std::move(work));
    } catch (const std::bad_alloc&) {
      // If there is too little memory to start this, there is also not much to give back.
    }
  }
}

void Worker::serve(Site& site) {
  for_each_frames(site, [this](const FramesComponent&, FramesPart& part) { part.observer = this; });
  site.serve();
}

void Worker::for_each_frames(const Site& site, std::invocable<const FramesComponent&, FramesPart&> auto fn) {
  for (const auto& component : site.plan()->all<FramesComponent>()) fn(*component, *site.parts().find(component.get()));
}

void Worker::set_tls(const std::shared_ptr<const net::tls::ServerContext>& context,
                     const std::shared_ptr<const net::tls::TicketKeys>& tickets) {
  server_.set_tls(context, tickets);
  for_each_frames(*site_, [&](const FramesComponent&, FramesPart& part) { part.server.set_tls(context, tickets); });
}

void Worker::bind(std::span<const net::Listening> addresses) {
  const auto bind_all = [this](auto& server, std::span<const net::Listening> wanted) {
    for (const net::Listening& one : wanted) {
      // Only one listener can bind the path of a unix socket.
      if (one.address.family() == AF_UNIX && one.shared < 0 && core_.index() != 0) continue;
      const auto bound = server.bind(one);
      if (bound) continue;
      throw std::system_error(bound.error().detail, std::generic_category(), "cannot listen on " + one.address.text());
    }
  };
  bind_all(server_, addresses);
  for_each_frames(next_ ? *next_ : *site_, [&](const FramesComponent& frames, FramesPart& part) {
    part.server.set_options({.descriptors = descriptors_.most, .trouble = descriptors_.trouble});
    bind_all(part.server, frames.addresses);
  });
}

void Worker::listen(const ListenerSet& listeners) {
  // Without TLS the last context stays, because existing TLS connections still need it.
  if (listeners.tls) set_tls(listeners.tls, listeners.tickets);
  https_port_ = listeners.https_port;
  site_->set_https_port(https_port_);
  const auto check = [](const Result<void>& done) {
    if (!done) throw std::system_error(done.error().detail, std::generic_category(), "cannot listen");
  };
  check(server_.listen_on(listeners.addresses));
  for_each_frames(
      *site_, [&](const FramesComponent& frames, FramesPart& part) { check(part.server.listen_on(frames.addresses)); });
}

void Worker::set_server_options(const Site& site) {
  server_.set_options(server_options(site, core_.mesh().size(), descriptors_));
  open_access_log(site.plan()->options.server);
}

void Worker::open_access_log(const ServerOptions& options) {
  access_log_.reset();
  if (options.has_access_log()) access_log_.emplace(redaction_, core_.reactor(), logs_.access());
}

bool Worker::drained() const {
  bool all = server_.drained();
  for_each_frames(*site_, [&](const FramesComponent&, FramesPart& part) { all = all && part.server.drained(); });
  return all;
}

void Worker::drain(Duration grace) noexcept {
  try {
    server_.drain(grace / 2);
    for_each_frames(*site_, [&](const FramesComponent&, FramesPart& part) { part.server.drain(grace / 2); });
    site_->drain_endless(nullptr);  // streams without an end
  } catch (const std::bad_alloc&) {
    // Streams that could not be notified are cut at the end of the grace period.
  }
}

core::Task<void> Worker::finish(Instant by) {
  std::vector<std::shared_ptr<RunningRequestLog>> logs;
  bool wrote = false;
  try {
    logs = ending_logs_;
    if (const auto& log = site_->request_log()) logs.push_back(log);
    for (const auto& log : logs) co_await log->log.flush(by);
    wrote = std::ranges::all_of(logs, [](const auto& log) { return log->log.empty(); });
  } catch (const std::bad_alloc&) {
    // The remaining rows of the logs are lost.
  }
  if (!drained() || !wrote) {
    // A statement that is not cancelled would continue in the database after this process has ended.
    server_.cut();
    for (const auto& log : logs) log->writing.cancel();
    co_await core::Sleep(core_.reactor(), core_.reactor().now() + for_cancels);
  }
  site_->parts().end();
}

void Worker::cut_oldest() {
  // By route, its replaced instances, the oldest first.
  std::map<Plan::RouteId, std::vector<const Route::Instance*>> instances;
  const auto instance_of = [](const Binding& binding) { return binding.route()->instance.get(); };
  for (const auto& binding : earlier_) {
    if (binding->route() == nullptr) continue;
    auto& of_route = instances[binding->id()];
    if (!contains(of_route, instance_of(*binding))) of_route.push_back(instance_of(*binding));
  }
  for (const auto& binding : site_->bindings()) {
    const auto found = instances.find(binding->id());
    if (found != instances.end() && binding->route() != nullptr) std::erase(found->second, instance_of(*binding));
  }
  for (const auto& binding : earlier_) {
    if (binding->route() == nullptr) continue;
    const auto& of_route = instances[binding->id()];
    const std::size_t too_many = of_route.size() - std::min(of_route.size(), most_earlier);
    if (contains(std::span(of_route).first(too_many), instance_of(*binding))) server_.cut_pinned(*binding);
  }
}

void Worker::retire(const Site& site) {
  for (const auto& part : site.parts().all()) {
    if (!site_->parts().has(part)) retired_.push_back(part);
  }
  for (const auto& binding : site.bindings()) {
    earlier_.push_back(binding);
    binding->retire();
  }
}

void Worker::forget_unused() {
  std::erase_if(earlier_, [](const auto& binding) { return binding->pins() == 0; });
  std::erase_if(retired_, [this](const Parts::One& part) {
    if (part.object.use_count() > 1) return false;
    runtime::keep_counters(ended_, part.readings());
    if (part.component->lingers()) tasks_.spawn(keep_for_cancels(part.object));
    return true;
  });
}

// Parts have users other than bindings, which do not notify the worker: refreshers, ending request logs, WebSockets.
core::Task<void> Worker::forget_when_unpinned() {
  for (;;) {
    (void)co_await released_.wait(retired_.empty() ? never : core_.reactor().now() + look_for_unused);
    co_await core::NextTurn(core_.reactor());  // the exchange that has released the binding ends first
    try {
      forget_unused();
    } catch (const std::bad_alloc&) {
      // Tried again after the next answer.
    }
  }
}

void Worker::build_next(std::shared_ptr<const Plan> plan) {
  next_ = std::make_unique<Site>(here_, released_, std::move(plan), site_.get());
  next_->set_https_port(https_port_);
  next_->build();
}

void Worker::serve_next() {
  const Plan& plan = *next_->plan();
  earlier_.reserve(earlier_.size() + site_->bindings().size());  // so that retire() cannot fail
  retired_.reserve(retired_.size() + site_->parts().all().size());
  serve(*next_);
  redaction_ = redaction(plan.options);
  set_server_options(*next_);
  site_->drain_endless(next_.get());
  const std::shared_ptr<RunningRequestLog> log = site_->request_log();
  if (next_->request_log()) next_->request_log()->log.set_routes(plan.names);
  if (log && log != next_->request_log()) ending_logs_.push_back(log);
  if (std::cmp_greater(plan.names.size() - std::ranges::count(plan.is_served, true), most_removed_routes)) {
    requests_.keep(plan.is_served);
  }
  std::unique_ptr<Site> replaced = std::exchange(site_, std::move(next_));
  if (log && log != site_->request_log()) tasks_.spawn(end_log(log));
  retire(*replaced);
  replaced.reset();
  forget_unused();
  if (!retired_.empty()) released_.ring();
  cut_oldest();
}

// Requests that were just cut may have to be cancelled in a database, so its connections are kept a little longer.
core::Task<void> Worker::keep_for_cancels(std::shared_ptr<const void> part) {
  co_await core::Sleep(core_.reactor(), core_.reactor().now() + for_cancels);
  part.reset();
}

core::Task<void> Worker::end_log(std::shared_ptr<RunningRequestLog> log) {
  core::Reactor& reactor = core_.reactor();
  const Instant deadline = reactor.now() + log_patience;
  while (!log->log.empty() && reactor.now() < deadline) {
    co_await log->log.flush(deadline);
    if (!log->log.empty()) co_await core::Sleep(reactor, reactor.now() + log_pause);  // the database is unavailable
  }
  std::erase(ending_logs_, log);
  runtime::keep_counters(ended_, log->log.counters().readings());
}

runtime::Snapshot Worker::snapshot() const {
  runtime::Snapshot result{.requests = requests_, .readings = server_.counters().readings()};
  Readings& all = result.readings;
  for (const auto& part : site_->parts().all()) append(all, part.readings());
  if (const auto& log = site_->request_log()) append(all, log->log.counters().readings());
  for (const auto& log : ending_logs_) append(all, log->log.counters().readings());
  for (const auto& part : retired_) append(all, part.readings());
  append(all, ended_);
  std::set<std::uint64_t> generations;
  for (const auto& binding : earlier_) generations.insert(binding->generation());
  append(all, {gauge("sluice_earlier_configurations", "Replaced configurations that answers still need, of all cores.",
                     static_cast<double>(generations.size()))});
  if (core_.index() == 0) append(all, logs_.readings());
  return result;
}

core::Task<runtime::Readiness> Worker::find_readiness(Instant deadline) {
  const std::vector<Parts::One> parts = site_->parts().all();  // a reload may replace them meanwhile
  runtime::Readiness all;
  for (const Parts::One& part : parts) {
    const runtime::Readiness one = co_await part.readiness(deadline);
    all.is_ready = all.is_ready && one.is_ready;
    if (!one.text.empty()) all.text += (all.text.empty() ? "" : "\n") + one.text;
  }
  co_return all;
}

void Worker::completed(const http::Completion& completion) {
  try {
    requests_.add(completion);
    if (access_log_ && (completion.exchange == nullptr || completion.exchange->pin.is_logged()))
      access_log_->add(completion, route_names());
    if (const auto& log = site_->request_log()) log->log.add(completion);
  } catch (const std::bad_alloc&) {
    // Connections may end because memory is short. Then the request is not logged.
  }
}

}  // namespace sluice::app
