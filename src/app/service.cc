#include "app/service.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <malloc.h>

#include "api/file_endpoint.h"
#include "core/next_turn.h"
#include "core/slab.h"
#include "core/sleep.h"
#include "core/usable_cores.h"
#include "files/static_files.h"
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

std::optional<http::HttpsRedirect> redirect(const ServerOptions& options, http::Handler& next) {
  if (!options.tls || !options.tls->redirect.value) return std::nullopt;
  return http::HttpsRedirect(next);
}

// The longest body that an endpoint may ask for: by its own limit, or its files, and the fields beside them.
std::uint64_t most_body(const Plan& plan) {
  std::uint64_t most = 0;
  for (const Plan::Endpoint& endpoint : plan.endpoints) {
    for (const auto& write : endpoint.writes) {
      most = std::max(most, write->body_limit);
      std::uint64_t files = 0;
      for (const api::UploadPlan::File& file : write->uploads.files) {
        files += plan.options.stores[*plan.options.find_store(file.store)].value.limit.value;
      }
      if (files != 0) most = std::max(most, plan.options.server.body_limit + files);
    }
    for (const auto& set : endpoint.sets) most = std::max(most, set->body_limit);
  }
  return most;
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

std::unique_ptr<http::compress::Compression> compression(const http::compress::Options& options, http::Handler& router,
                                                         core::Core& core, core::BlockingPool& threads) {
  if (options.codings.empty()) return nullptr;
  return std::make_unique<http::compress::Compression>(router, options, core.reactor(), core.mailbox(), threads);
}

}  // namespace

Service::Service(core::Core& core, std::shared_ptr<const Plan> plan, core::BlockingPool& threads,
                 std::span<const std::unique_ptr<TroubleLog>> troubles,
                 std::span<const std::unique_ptr<sql::SharedDatabase>> shared,
                 std::span<const api::resident::Edition> editions, const Descriptors& descriptors)
    : core_(core),
      plan_(std::move(plan)),
      redaction_(redaction(plan_->options)),
      compression_(compression(plan_->options.compression, router_, core, threads)),
      redirect_(redirect(plan_->options.server, first_handler())),
      server_(core.reactor(), redirect_ ? static_cast<http::Handler&>(*redirect_) : first_handler(),
              server_options(plan_->options.server, most_body(*plan_), core.mesh().size(), descriptors), this) {
  giving_back_.spawn(give_memory_back(threads));
  if (plan_->options.server.access_log == AccessLogTarget::standard_output) {
    access_log_.emplace(redaction_, core.reactor());
  }
  for (std::size_t i = 0; i < plan_->options.databases.size(); ++i) {
    const auto& database = plan_->options.databases[i];
    auto opened = sql::open_database(database.value, core.reactor(), core.mailbox(), threads, shared[i].get());
    if (!opened) throw std::runtime_error("database \"" + database.name.value + "\": " + opened.error().message);
    databases_.push_back(std::move(*opened));
  }

  for (std::size_t i = 0; i < plan_->options.policies.size(); ++i) {
    policies_.push_back(
        std::make_unique<gateway::jwt::JwtPolicy>(plan_->options.policies[i].value, plan_->keys[i], core.reactor()));
  }

  for (const auto& store : plan_->options.stores) {
    stores_.push_back(
        std::make_unique<files::Store>(store.name.value, store.value, core.reactor(), core.mailbox(), threads));
    files_.push_back(&stores_.back()->files());
  }
  const auto store_of = [&](const std::string& name) -> http::BlobStore* {
    return stores_[*plan_->options.find_store(name)].get();
  };

  if (const auto& log = plan_->request_log) {
    request_log_ =
        std::make_unique<RequestLog>(*log, redaction_, plan_->routes, *databases_[log->database], core.reactor());
    writing_log_.spawn(request_log_->run());
  }

  using Method = http::Method;
  const auto add = [&](Plan::RouteId id, http::Router::Route route) {
    route.id = id;
    if (!router_.add(route)) throw std::runtime_error("two routes for the path " + plan_->routes[id]);
  };
  const auto own = [&](std::unique_ptr<http::Handler> handler) {
    handlers_.push_back(std::move(handler));
    return handlers_.back().get();
  };
  const auto add_changes = [&](const Plan::Endpoint& endpoint) {
    const auto& changes = *endpoint.changes;
    const api::changes::Feed::Limits limits{.events = changes.options.keep, .bytes = changes.options.keep_bytes};
    feeds_.push_back(std::make_unique<api::changes::Feed>(core.reactor(), changes.boot, limits));
    http::Router::Route route{.pattern = endpoint.changes_pattern(), .handlers = {}};
    route.policy = compile(plan_->options.endpoints[endpoint.index].use);
    route.handlers[static_cast<std::size_t>(Method::get)] =
        own(std::make_unique<api::changes::Handler>(endpoint.changes, *feeds_.back(), *databases_[endpoint.database],
                                                    core.reactor(), troubles[endpoint.database].get()));
    add(endpoint.changes_route, std::move(route));
  };
  for (const Plan::Endpoint& endpoint : plan_->endpoints) {
    const api::EndpointOptions& options = plan_->options.endpoints[endpoint.index];
    const bool is_file = options.returns == api::Returns::file;
    http::Router::Route route{.pattern = endpoint.pattern, .handlers = {}, .formats = !is_file};
    route.policy = compile(options.use);
    sql::Database& database = *databases_[endpoint.database];
    TroubleLog* const trouble = troubles[endpoint.database].get();
    if (endpoint.get && is_file) {
      route.handlers[static_cast<std::size_t>(Method::get)] = own(std::make_unique<api::FileEndpoint>(
          endpoint.get, database, core.reactor(), *store_of(options.store.value), trouble));
    } else if (endpoint.get) {
      route.handlers[static_cast<std::size_t>(Method::get)] =
          own(std::make_unique<api::Endpoint>(endpoint.get, database, core.reactor(), trouble));
    }
    for (const auto& write : endpoint.writes) {
      std::vector<http::BlobStore*> stores;
      for (const api::UploadPlan::File& file : write->uploads.files) stores.push_back(store_of(file.store));
      route.handlers[static_cast<std::size_t>(write->method)] =
          own(std::make_unique<api::WriteEndpoint>(write, database, core.reactor(), trouble, std::move(stores)));
    }
    for (const auto& set : endpoint.sets) {
      route.handlers[static_cast<std::size_t>(set->method)] =
          own(std::make_unique<api::SetEndpoint>(set, database, core.reactor(), trouble));
    }
    if (endpoint.answers()) add(endpoint.route, std::move(route));
    if (endpoint.changes) add_changes(endpoint);
  }
  for (std::size_t i = 0; i < plan_->residents.size(); ++i) {
    const Plan::Resident& resident = plan_->residents[i];
    residents_.push_back(std::make_unique<api::resident::Resident>(resident.plan, editions[i], core.reactor(),
                                                                   core.mailbox(), threads, &core.mesh()));
    http::Policy* const policy = compile(plan_->options.residents[resident.index].use);
    const auto add_resident = [&](Plan::RouteId id, http::Pattern pattern, std::unique_ptr<http::Handler> handler) {
      http::Router::Route route{.pattern = std::move(pattern), .handlers = {}, .formats = true};
      route.policy = policy;
      route.handlers[static_cast<std::size_t>(Method::get)] = own(std::move(handler));
      add(id, std::move(route));
    };
    add_resident(resident.route, resident.pattern, std::make_unique<api::resident::ListHandler>(*residents_.back()));
    if (resident.plan->shape.key.empty()) continue;
    add_resident(resident.key_route, resident.key_pattern(),
                 std::make_unique<api::resident::FindHandler>(*residents_.back()));
  }
  for (const Plan::Files& files : plan_->files) {
    auto handler = std::make_unique<files::StaticFiles>(plan_->options.files[files.index], core.reactor(),
                                                        core.mailbox(), threads);
    files_.push_back(handler.get());
    http::Router::Route route{.pattern = files.pattern, .handlers = {}, .folder = true};
    route.policy = compile(plan_->options.files[files.index].use);
    route.handlers[static_cast<std::size_t>(Method::get)] = own(std::move(handler));
    add(files.route, std::move(route));
  }
  for (const Plan::WebSocket& websocket : plan_->websockets) {
    // Over HTTP/2 it is CONNECT (RFC 8441).
    const auto& options = plan_->options.websockets[websocket.index];
    auto endpoint = std::make_unique<http::websocket::Endpoint>(options, echo_);
    websockets_.push_back(endpoint.get());
    http::Router::Route route{.pattern = websocket.pattern, .handlers = {}, .upgrades = true};
    route.policy = compile(options.use);
    http::Handler* const handler = own(std::move(endpoint));
    route.handlers[static_cast<std::size_t>(Method::get)] = handler;
    route.handlers[static_cast<std::size_t>(Method::connect)] = handler;
    add(websocket.route, std::move(route));
  }
  if (plan_->batch) {
    const auto& options = *plan_->options.batch;
    std::vector<http::Policy*> policies;
    for (const auto& called : plan_->batch->routes) {
      policies.push_back(compile(plan_->options.endpoints[called.endpoint].use));
    }
    http::Router::Route route{.pattern = *http::Pattern::parse(options.path.value), .handlers = {}};
    route.policy = compile(options.use);
    route.handlers[static_cast<std::size_t>(Method::post)] =
        own(std::make_unique<api::batch::Batch>(*plan_->batch, *databases_[plan_->batch_database], std::move(policies),
                                                core.reactor(), troubles[plan_->batch_database].get()));
    add(plan_->batch_route, std::move(route));
  }
  if (plan_->openapi) {
    const auto& options = *plan_->options.openapi;
    http::Router::Route route{.pattern = *http::Pattern::parse(options.path.value), .handlers = {}};
    route.policy = compile(options.use);
    route.handlers[static_cast<std::size_t>(Method::get)] =
        own(std::make_unique<api::openapi::DocumentHandler>(plan_->openapi));
    add(plan_->openapi_route, std::move(route));
  }
}

Service::~Service() = default;

http::Policy* Service::compile(const std::vector<Located<std::string>>& use) {
  std::vector<http::Policy*> policies;
  for (const auto& name : use) {
    const auto index = plan_->options.find_policy(name.value);
    // A route is never served without what it asks for.
    if (!index) throw std::runtime_error("there is no policy \"" + name.value + "\"");
    policies.push_back(policies_[*index].get());
  }
  if (policies.empty()) return nullptr;
  if (policies.size() == 1) return policies.front();
  return chains_.emplace_back(std::make_unique<gateway::Chain>(std::move(policies))).get();
}

// The allocators keep what has been freed, and a peak of bodies would stay with the process for good. malloc gives it
// back on another thread: that takes milliseconds.
core::Task<void> Service::give_memory_back(core::BlockingPool& threads) {
  for (;;) {
    co_await core::Sleep(core_.reactor(), core_.reactor().now() + trim_every);
    if (server_.counters().bodies.peak < server_.counters().bodies.held + worth_trimming) continue;
    server_.forget_peak_of_bodies();
    for (std::size_t bytes = core::slab_granule; bytes <= core::slab_max_bytes; bytes += core::slab_granule) {
      (void)core::slab_trim(bytes);
      co_await core::NextTurn(core_.reactor());
    }
    auto work = [] { (void)::malloc_trim(0); };
    (void)co_await threads.run(core_.mailbox(), std::move(work));
  }
}

void Service::listen(const core::Address& address, bool secure) {
  if (const auto bound = server_.listen(address, secure); !bound) {
    throw std::system_error(bound.error().detail, std::generic_category(), "cannot listen on " + address.text());
  }
}

void Service::deliver(const Deliveries& deliveries) {
  for (const Delivery& delivery : deliveries) feeds_[delivery.feed]->add(delivery.event);
  for (const auto& feed : feeds_) {
    if (std::ranges::find(deliveries, static_cast<std::size_t>(&feed - feeds_.data()), &Delivery::feed) !=
        deliveries.end()) {
      feed->wake_all();
    }
  }
}

void Service::drain(Duration grace, std::atomic<unsigned>& cores_left) {
  if (std::exchange(draining_, true)) return;
  server_.drain();
  for (const auto& feed : feeds_) feed->drain();  // streams without an end
  core_.tasks().spawn([](Service& self, Instant deadline, std::atomic<unsigned>& left) -> core::Task<void> {
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

Service::Snapshot Service::snapshot() const {
  Snapshot result;
  result.requests = requests_;
  result.server = server_.counters();
  if (request_log_) result.request_log = request_log_->counters();
  for (const auto& store : stores_) result.stores.push_back(store->counters());
  for (const auto& policy : policies_) result.policies.push_back(policy->counters());
  for (const auto& feed : feeds_) result.changes.push_back(feed->counters);
  for (const auto& resident : residents_) result.residents.push_back(resident->counters());
  for (const auto& database : databases_) result.databases.push_back(database->readings());
  for (const auto* files : files_) result.files.add(files->counters());
  if (compression_) result.compression = compression_->counters();
  for (const http::websocket::Endpoint* websocket : websockets_) result.websockets += websocket->counters();
  return result;
}

core::Task<std::optional<std::string>> Service::find_unready(Instant deadline) {
  for (std::size_t i = 0; i < databases_.size(); ++i) {
    if (!co_await databases_[i]->ping(deadline)) co_return plan_->options.databases[i].name.value;
  }
  co_return std::nullopt;
}

void Service::completed(const http::Completion& completion) {
  try {
    requests_.add(completion);
    if (access_log_) access_log_->add(completion);
    if (request_log_) request_log_->add(completion);
  } catch (const std::bad_alloc&) {
    // It is told while connections end, also for want of memory: this one is in no log.
  }
}

}  // namespace sluice::app
