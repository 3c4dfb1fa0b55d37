#include "app/worker.h"

#include <algorithm>
#include <new>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <malloc.h>

#include "core/next_turn.h"
#include "core/slab.h"
#include "core/sleep.h"
#include "core/usable_cores.h"
#include "sql/open.h"

namespace sluice::app {
namespace {

// How long the end waits, beyond `grace`, for databases to hear of what was cut.
constexpr Duration for_cancels = 200ms;
// How often it is looked whether there is memory to give back, and how much is worth it.
constexpr Duration trim_every = 5s;
constexpr std::uint64_t worth_trimming = 8 << 20;

std::vector<std::pair<std::string, std::string>> configured_fields(const ServerOptions& options) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const auto& header : options.headers) fields.emplace_back(header.name.value, header.value.value.value);
  return fields;
}

std::vector<std::pair<std::string, std::string>> secure_fields(const ServerOptions& options) {
  if (!options.tls || options.tls->hsts <= 0s) return {};
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(options.tls->hsts);
  return {{"Strict-Transport-Security", "max-age=" + std::to_string(age.count())}};
}

Redaction redaction(const Options& options) {
  return options.request_log ? Redaction(options.request_log->redact) : Redaction();
}

// Of one core.
std::uint64_t body_memory(const ServerOptions& options, unsigned cores) {
  const std::uint64_t configured = options.body_memory.bytes;
  return (configured != 0 ? configured : core::usable_memory() / 4) / cores;
}

http::ServerOptions server_options(const ServerOptions& options, std::uint64_t most_body, unsigned cores,
                                   const Descriptors& descriptors) {
  return {.header_limit = options.header_limit,
          .target_limit = options.target_limit.value,
          .field_limit = options.field_limit,
          .body_limit = options.body_limit,
          .most_body = most_body,
          .body_memory = body_memory(options, cores),
          .header_timeout = options.header_timeout,
          .body_timeout = options.body_timeout,
          .idle_timeout = options.idle_timeout,
          .write_timeout = options.write_timeout,
          .slowest_client = static_cast<std::uint32_t>(options.slowest_client),
          .connections = options.connections.value,
          .descriptors = descriptors.most,
          .trouble = descriptors.trouble,
          .server_name = options.server_header,
          .fields = configured_fields(options),
          .secure_fields = secure_fields(options),
          .http1 = options.http1,
          .http2 = options.http2,
          .http2_streams = options.http2_streams};
}

}  // namespace

Worker::Worker(core::Core& core, std::shared_ptr<const Plan> plan, core::BlockingPool& threads,
               std::span<const std::unique_ptr<TroubleLog>> troubles,
               std::span<const std::unique_ptr<sql::SharedDatabase>> shared,
               std::span<const api::resident::Edition> editions, const Descriptors& descriptors)
    : core_(core),
      plan_(std::move(plan)),
      threads_(threads),
      troubles_(troubles),
      redaction_(redaction(plan_->options)),
      descriptors_(descriptors),
      site_(std::make_unique<Site>(*this, plan_)),
      server_(core.reactor(), *this,
              server_options(plan_->options.server, plan_->most_body, core.mesh().size(), descriptors), this) {
  giving_back_.spawn(give_memory_back());
  const Options& options = plan_->options;
  if (options.server.access_log == AccessLogTarget::standard_output) access_log_.emplace(redaction_, core.reactor());
  for (std::size_t i = 0; i < options.databases.size(); ++i) {
    const auto& database = options.databases[i];
    auto opened = sql::open_database(database.value, core.reactor(), core.mailbox(), threads, shared[i].get());
    if (!opened) throw std::runtime_error("database \"" + database.name.value + "\": " + opened.error().message);
    databases_.push_back(std::move(*opened));
  }
  for (const auto& store : options.stores) {
    stores_.push_back(
        std::make_unique<files::Store>(store.name.value, store.value, core.reactor(), core.mailbox(), threads));
  }
  if (const auto& log = plan_->request_log) {
    request_log_ =
        std::make_unique<RequestLog>(*log, redaction_, plan_->names, *databases_[log->database], core.reactor());
    writing_log_.spawn(request_log_->run());
  }
  for (const auto& [changes, database] : plan_->feeds) {
    const api::changes::Feed::Limits limits{.events = changes->options.keep, .bytes = changes->options.keep_bytes};
    feeds_[changes->path] = std::make_unique<api::changes::Feed>(core.reactor(), changes->boot, limits);
  }
  for (std::size_t i = 0; i < plan_->residents.size(); ++i) {
    const auto& resident = plan_->residents[i].plan;
    residents_[resident->name] = std::make_unique<api::resident::Resident>(resident, editions[i], core.reactor(),
                                                                           core.mailbox(), threads, &core.mesh());
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
  // Who has come over TLS before it was taken away is still served with what there was.
  if (listeners.tls) server_.set_tls(listeners.tls, listeners.tickets);
  https_port_ = listeners.https_port;
  site_->set_https_port(https_port_);
  if (const auto done = server_.listen_on(listeners.addresses); !done) {
    throw std::system_error(done.error().detail, std::generic_category(), "cannot listen");
  }
}

void Worker::set_server_options(const Plan& plan) {
  server_.set_options(server_options(plan.options.server, plan.most_body, core_.mesh().size(), descriptors_));
  if (plan.options.server.access_log == AccessLogTarget::off) {
    access_log_.reset();
  } else if (!access_log_) {
    access_log_.emplace(redaction_, core_.reactor());
  }
}

void Worker::deliver(const Deliveries& deliveries) {
  for (const Delivery& delivery : deliveries) feed(delivery.feed).add(delivery.event);
  for (const Delivery& delivery : deliveries) feed(delivery.feed).wake_all();
}

void Worker::drain(Duration grace, std::atomic<unsigned>& cores_left) {
  if (std::exchange(draining_, true)) return;
  server_.drain();
  for (const auto& [path, feed] : feeds_) feed->drain();  // streams without an end
  core_.tasks().spawn([](Worker& self, Instant deadline, std::atomic<unsigned>& left) -> core::Task<void> {
    core::Reactor& reactor = self.core_.reactor();
    while (!self.server_.drained() && reactor.now() < deadline) co_await core::Sleep(reactor, reactor.now() + 5ms);
    if (self.request_log_) co_await self.request_log_->flush(deadline);
    if (!self.server_.drained() || (self.request_log_ && !self.request_log_->empty())) {
      // Statements that nobody cancels would go on at the database without us, some of them for ever.
      self.server_.cut();
      self.writing_log_.cancel();
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

void Worker::build_next(std::shared_ptr<const Plan> plan) {
  next_ = std::make_unique<Site>(*this, std::move(plan), site_.get());
  next_->set_https_port(https_port_);
  next_->build();
}

void Worker::serve_next(const std::vector<std::shared_ptr<const gateway::jwt::KeySet>>& keys) {
  const Plan& plan = *next_->plan();
  next_->set_keys(keys);
  if (request_log_) request_log_->set_routes(plan.names);
  set_server_options(plan);
  earlier_.push_back(std::exchange(site_, std::move(next_)));
  serving_ = http::Pin(*site_);
}

void Worker::unpinned(Site& site) {
  const auto found = std::ranges::find(earlier_, &site, &std::unique_ptr<Site>::get);
  if (found == earlier_.end()) return;
  std::set<const void*> counted;
  (void)site_->shared_readings(counted);
  for (const auto& one : earlier_) {
    if (one.get() != &site) (void)one->shared_readings(counted);
  }
  Readings last = site.readings();
  append(last, site.shared_readings(counted));
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
  earlier_.erase(found);
}

Worker::Snapshot Worker::snapshot() const {
  const Options& options = plan_->options;
  Snapshot result{.requests = requests_, .readings = server_.counters().readings()};
  Readings& all = result.readings;
  for (std::size_t i = 0; i < databases_.size(); ++i) {
    for (Reading& reading : databases_[i]->readings()) {
      const bool is_pool = reading.name.starts_with("db_client_connection_");  // OpenTelemetry's
      append(all, {std::move(reading)},
             label(is_pool ? "db_client_connection_pool_name" : "database", options.databases[i].name.value));
    }
  }
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    if (!options.files.empty()) append(all, stores_[i]->files().counters().readings());
    append(all, stores_[i]->counters().readings(), label("store", options.stores[i].name.value));
  }
  std::set<const void*> counted;
  append(all, site_->readings());
  append(all, site_->shared_readings(counted));
  for (const auto& site : earlier_) {
    append(all, site->readings());
    append(all, site->shared_readings(counted));
  }
  append(all, ended_);
  append(all, {gauge("sluice_earlier_configurations", "Replaced configurations that answers still need, of all cores.",
                     static_cast<double>(earlier_.size()))});
  if (request_log_) append(all, request_log_->counters().readings());
  for (const Plan::Feed& feed : plan_->feeds) {
    append(all, feeds_.at(feed.plan->path)->counters.readings(), label("http_route", feed.plan->path));
  }
  for (const Plan::Resident& resident : plan_->residents) {
    append(all, residents_.at(resident.plan->name)->counters().readings(), label("resident", resident.plan->name));
  }
  return result;
}

core::Task<std::optional<std::string>> Worker::find_unready(Instant deadline) {
  for (std::size_t i = 0; i < databases_.size(); ++i) {
    if (!co_await databases_[i]->ping(deadline)) co_return plan_->options.databases[i].name.value;
  }
  co_return std::nullopt;
}

void Worker::completed(const http::Completion& completion) {
  try {
    requests_.add(completion);
    if (access_log_) access_log_->add(completion);
    if (request_log_) request_log_->add(completion);
  } catch (const std::bad_alloc&) {
    // It is told while connections end, also for want of memory: this one is in no log.
  }
}

}  // namespace sluice::app
