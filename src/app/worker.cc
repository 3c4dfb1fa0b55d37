#include "app/worker.h"

#include <algorithm>
#include <new>
#include <set>
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

// How long the end waits, beyond `grace`, for databases to hear of what was cut.
constexpr Duration for_cancels = 200ms;
// How long a request log that a reload has ended may take to write what it has.
constexpr Duration log_patience = 60s;
constexpr Duration log_pause = 200ms;
// Beyond so many that reloads have removed, what they have counted is forgotten.
constexpr std::size_t most_removed_routes = 1000;
// How often it is looked whether there is memory to give back, and how much is worth it.
constexpr Duration trim_every = 5s;
constexpr std::uint64_t worth_trimming = 8 << 20;

Redaction redaction(const Options& options) {
  return options.request_log ? Redaction(options.request_log->redact) : Redaction();
}

// Of one core.
std::uint64_t body_memory(const ServerOptions& options, unsigned cores) {
  const std::uint64_t configured = options.body_memory.bytes;
  return (configured != 0 ? configured : core::usable_memory() / 4) / cores;
}

http::ServerOptions server_options(const Site& site, unsigned cores, const Descriptors& descriptors) {
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
          .http2_streams = options.http2_streams};
}

}  // namespace

Worker::Worker(core::Core& core, const std::shared_ptr<const Plan>& plan, core::BlockingPool& threads,
               const Descriptors& descriptors)
    : core_(core),
      threads_(threads),
      redaction_(redaction(plan->options)),
      descriptors_(descriptors),
      site_(std::make_unique<Site>(*this, plan)),
      server_(core.reactor(), *this, server_options(*site_, core.mesh().size(), descriptors), this) {
  tasks_.spawn(give_memory_back());
  if (plan->options.server.access_log == AccessLogTarget::standard_output) {
    access_log_.emplace(redaction_, core.reactor());
  }
  site_->build();
}

Worker::~Worker() = default;

// The allocators keep what has been freed, and a peak of bodies would stay with the process for good. malloc gives it
// back on another thread: that takes milliseconds.
core::Task<void> Worker::give_memory_back() {
  for (;;) {
    co_await core::Sleep(core_.reactor(), core_.reactor().now() + trim_every);
    if (server_.counters().bodies.peak < server_.counters().bodies.held + worth_trimming) continue;
    server_.forget_peak_of_bodies();
    for (std::size_t bytes = core::slab_granule; bytes <= core::slab_max_bytes; bytes += core::slab_granule) {
      (void)core::slab_trim(bytes);
      co_await core::NextTurn(core_.reactor());
    }
    auto work = [] { (void)::malloc_trim(0); };
    (void)co_await threads_.run(core_.mailbox(), std::move(work));
  }
}

void Worker::bind(std::span<const http::Listening> addresses) {
  for (const http::Listening& one : addresses) {
    // A unix socket's path belongs to one listener.
    if (one.address.family() == AF_UNIX && core_.index() != 0) continue;
    const auto bound = server_.bind(one.address);
    if (bound) continue;
    throw std::system_error(bound.error().detail, std::generic_category(), "cannot listen on " + one.address.text());
  }
}

void Worker::listen(const ListenerSet& listeners) {
  // Without TLS the last context stays: connections that were accepted over TLS still need it.
  if (listeners.tls) server_.set_tls(listeners.tls, listeners.tickets);
  https_port_ = listeners.https_port;
  site_->set_https_port(https_port_);
  if (const auto done = server_.listen_on(listeners.addresses); !done) {
    throw std::system_error(done.error().detail, std::generic_category(), "cannot listen");
  }
}

void Worker::set_server_options(const Site& site) {
  server_.set_options(server_options(site, core_.mesh().size(), descriptors_));
  if (site.plan()->options.server.access_log == AccessLogTarget::off) {
    access_log_.reset();
  } else if (!access_log_) {
    access_log_.emplace(redaction_, core_.reactor());
  }
}

template <class Get>
auto Worker::find(Get get) const -> decltype(get(std::declval<const Site&>())) {
  if (auto found = get(*site_)) return found;
  if (next_) {
    if (auto found = get(*next_)) return found;
  }
  for (const auto& site : earlier_) {
    if (auto found = get(*site)) return found;
  }
  return {};
}

std::shared_ptr<sql::Database> Worker::database_of(const Plan::Database* database) const {
  return find([&](const Site& site) {
    const auto& all = site.plan()->databases;
    const auto found = std::ranges::find(all, database, &std::shared_ptr<Plan::Database>::get);
    return found != all.end() ? site.databases()[static_cast<std::size_t>(found - all.begin())] : nullptr;
  });
}

void Worker::publish(const api::resident::Plan* plan, const api::resident::Edition& edition) {
  if (const auto resident = find([&](const Site& site) { return site.resident(plan); })) resident->publish(edition);
}

void Worker::cut_answers_of(const api::resident::Plan* plan, const api::resident::Table* table) {
  if (const auto resident = find([&](const Site& site) { return site.resident(plan); })) {
    resident->each_owner_of(table, [&](const void* owner) { server_.cut_answers_of(owner); });
  }
}

void Worker::deliver(const Deliveries& deliveries) {
  std::vector<std::shared_ptr<api::changes::Feed>> feeds;
  for (const Delivery& delivery : deliveries) {
    auto feed = find([&](const Site& site) { return site.feed(delivery.feed); });
    if (!feed) continue;  // a reload has ended it
    feed->add(delivery.event);
    feeds.push_back(std::move(feed));
  }
  for (const auto& feed : feeds) feed->wake_all();
}

void Worker::drain(Duration grace, std::atomic<unsigned>& cores_left) {
  if (std::exchange(draining_, true)) return;
  server_.drain();
  site_->drain_endless(nullptr);  // streams without an end
  core_.tasks().spawn([](Worker& self, Instant deadline, std::atomic<unsigned>& left) -> core::Task<void> {
    core::Reactor& reactor = self.core_.reactor();
    while (!self.server_.drained() && reactor.now() < deadline) co_await core::Sleep(reactor, reactor.now() + 5ms);
    std::vector<std::shared_ptr<RunningRequestLog>> logs = self.ending_logs_;
    if (const auto& log = self.site_->request_log()) logs.push_back(log);
    for (const auto& log : logs) co_await log->log.flush(deadline);
    const bool wrote = std::ranges::all_of(logs, [](const auto& log) { return log->log.empty(); });
    if (!self.server_.drained() || !wrote) {
      // Statements that nobody cancels would go on at the database without us, some of them for ever.
      self.server_.cut();
      for (const auto& log : logs) log->writing.cancel();
      co_await core::Sleep(reactor, reactor.now() + for_cancels);
    }
    --left;
    // The admin listener is the first core's: it answers until nobody serves any more.
    while (self.core_.index() == 0 && left != 0 && reactor.now() < deadline) {
      co_await core::Sleep(reactor, reactor.now() + 5ms);
    }
    self.core_.stop();
  }(*this, core_.reactor().now() + grace, cores_left));
}

void Worker::cut_oldest() {
  for (std::size_t i = 0; i + most_earlier <= earlier_.size(); ++i) server_.cut_pinned(*earlier_[i]);
}

void Worker::build_next(std::shared_ptr<const Plan> plan) {
  next_ = std::make_unique<Site>(*this, std::move(plan), site_.get());
  next_->set_https_port(https_port_);
  next_->build();
}

void Worker::serve_next(const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys) {
  const Plan& plan = *next_->plan();
  next_->set_keys(keys);
  redaction_ = redaction(plan.options);
  set_server_options(*next_);
  site_->drain_endless(next_.get());
  const std::shared_ptr<RunningRequestLog> log = site_->request_log();
  if (next_->request_log()) next_->request_log()->log.set_routes(plan.names);
  if (log && log != next_->request_log()) {
    ending_logs_.push_back(log);
    tasks_.spawn(end_log(log));
  }
  if (std::cmp_greater(plan.names.size() - std::ranges::count(plan.is_served, true), most_removed_routes)) {
    requests_.keep(plan.is_served);
  }
  for (const auto& database : site_->databases()) {
    if (!contains(next_->databases(), database)) database->retire();
  }
  cut_oldest();
  earlier_.push_back(std::exchange(site_, std::move(next_)));
  serving_ = http::Pin(*site_);
}

core::Task<void> Worker::keep_for_cancels(std::shared_ptr<sql::Database> database) {
  co_await core::Sleep(core_.reactor(), core_.reactor().now() + for_cancels);
  database.reset();
}

core::Task<void> Worker::end_log(std::shared_ptr<RunningRequestLog> log) {
  core::Reactor& reactor = core_.reactor();
  const Instant deadline = reactor.now() + log_patience;
  while (!log->log.empty() && reactor.now() < deadline) {
    co_await log->log.flush(deadline);
    if (!log->log.empty()) co_await core::Sleep(reactor, reactor.now() + log_pause);  // the database is away
  }
  std::erase(ending_logs_, log);
  const bool is_counted = contains(earlier_, log, [](const auto& site) { return site->request_log(); });
  if (!is_counted) count_ended(log->log.counters().readings());
}

void Worker::count_ended(Readings last) {
  for (Reading& reading : last) {
    if (reading.kind != Reading::Kind::counter) continue;
    const auto same = std::ranges::find_if(
        ended_, [&](const Reading& one) { return one.name == reading.name && one.labels == reading.labels; });
    if (same == ended_.end()) {
      ended_.push_back(std::move(reading));
    } else {
      same->value += reading.value;
    }
  }
}

void Worker::unpinned(Site& site) {
  const auto found = std::ranges::find(earlier_, &site, &std::unique_ptr<Site>::get);
  if (found == earlier_.end()) return;
  std::set<const void*> counted;
  (void)site_->shared_readings(counted);
  for (const auto& log : ending_logs_) counted.insert(log.get());
  for (const auto& one : earlier_) {
    if (one.get() != &site) (void)one->shared_readings(counted);
  }
  Readings last = site.readings();
  append(last, site.shared_readings(counted));
  count_ended(std::move(last));
  // What was cut a moment ago may still have to be cancelled at a database that goes with the site.
  for (const auto& database : site.databases()) {
    if (database.use_count() > 1) continue;  // another site has it
    tasks_.spawn(keep_for_cancels(database));
  }
  earlier_.erase(found);
}

Worker::Snapshot Worker::snapshot() const {
  Snapshot result{.requests = requests_, .readings = server_.counters().readings()};
  Readings& all = result.readings;
  std::set<const void*> counted;
  append(all, site_->readings());
  append(all, site_->shared_readings(counted));
  for (const auto& log : ending_logs_) {
    if (counted.insert(log.get()).second) append(all, log->log.counters().readings());
  }
  for (const auto& site : earlier_) {
    append(all, site->readings());
    append(all, site->shared_readings(counted));
  }
  append(all, ended_);
  append(all, {gauge("sluice_earlier_configurations", "Replaced configurations that answers still need, of all cores.",
                     static_cast<double>(earlier_.size()))});
  return result;
}

core::Task<std::optional<std::string>> Worker::find_unready(Instant deadline) {
  const std::shared_ptr<const Plan> plan = site_->plan();
  const auto databases = site_->databases();  // a reload may go on meanwhile
  for (std::size_t i = 0; i < databases.size(); ++i) {
    if (!co_await databases[i]->ping(deadline)) co_return plan->options.databases[i].name.value;
  }
  co_return std::nullopt;
}

void Worker::completed(const http::Completion& completion) {
  try {
    requests_.add(completion);
    if (access_log_) access_log_->add(completion);
    if (const auto& log = site_->request_log()) log->log.add(completion);
  } catch (const std::bad_alloc&) {
    // It is told while connections end, also for want of memory: this one is in no log.
  }
}

}  // namespace sluice::app
