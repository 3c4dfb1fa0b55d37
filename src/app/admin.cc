#include "app/admin.h"

#include <system_error>
#include <utility>

namespace sluice::app {
namespace {

constexpr Duration readiness_wait = 2s;
// Fewer than the descriptors that clients leave.
constexpr std::size_t most_connections = 64;

http::Response text_response(std::string_view type, std::string_view text) {
  http::Response response;
  response.fields.add("Content-Type", type);
  response.fields.add("Cache-Control", "no-store");
  Buffer body;
  body.append(text);
  response.body = std::move(body);
  return response;
}

}  // namespace

class Admin::Live final : public http::Handler {
 public:
  core::Async<http::Response> handle(http::Request&) override { return text_response("text/plain", "live\n"); }
};

// Ready: not draining, and every database answers the first core.
class Admin::Ready final : public http::Handler {
 public:
  Ready(core::Core& core, std::span<Worker* const> workers) : core_(core), workers_(workers) {}

  core::Async<http::Response> handle(http::Request&) override { return find_out(); }

 private:
  core::Task<http::Response> find_out() {
    Worker& worker = *workers_[core_.index()];
    if (worker.draining()) co_return not_ready("The server is shutting down.");
    const auto unready = co_await worker.find_unready(core_.reactor().now() + readiness_wait);
    if (unready) co_return not_ready("The database \"" + *unready + "\" does not answer.");
    co_return text_response("text/plain", "ready\n");
  }
  static http::Response not_ready(std::string_view why) {
    http::Response response = http::problem(503, why);
    response.fields.add("Retry-After", "1");
    return response;
  }

  core::Core& core_;
  std::span<Worker* const> workers_;
};

class Admin::Metrics final : public http::Handler {
 public:
  Metrics(core::Core& core, std::shared_ptr<const Plan> plan, std::span<Worker* const> workers, const Changes* changes,
          const Residents* residents)
      : core_(core), plan_(std::move(plan)), workers_(workers), changes_(changes), residents_(residents) {}

  core::Async<http::Response> handle(http::Request&) override { return gather(); }

 private:
  core::Task<http::Response> gather() {
    RequestMetrics requests;
    ServerMetrics servers;
    DatabaseMetrics databases;
    files::Cache::Counters files;
    http::compress::Counters compression;
    ws::Counters websockets;
    RequestLog::Counters request_log;
    std::vector<files::Store::Counters> stores(plan_->options.stores.size());
    std::vector<gateway::jwt::Counters> policies(plan_->options.policies.size());
    std::vector<api::changes::Counters> changes(plan_->feeds.size());
    std::vector<api::resident::Resident::Counters> answers(plan_->residents.size());
    for (unsigned i = 0; i < workers_.size(); ++i) {
      Worker::Snapshot snapshot;
      if (i == core_.index()) {
        snapshot = workers_[i]->snapshot();
      } else {
        auto answer = co_await core_.mesh().call(i, [worker = workers_[i]] { return worker->snapshot(); });
        if (!answer) continue;  // that core has ended
        snapshot = std::move(*answer);
      }
      requests.add(snapshot.requests);
      servers.add(snapshot.server);
      databases.add(snapshot.databases);
      files.add(snapshot.files);
      compression.add(snapshot.compression);
      websockets += snapshot.websockets;
      request_log.written += snapshot.request_log.written;
      request_log.dropped += snapshot.request_log.dropped;
      for (std::size_t k = 0; k < snapshot.stores.size(); ++k) stores[k] += snapshot.stores[k];
      for (std::size_t k = 0; k < snapshot.policies.size(); ++k) policies[k] += snapshot.policies[k];
      for (std::size_t k = 0; k < snapshot.changes.size(); ++k) changes[k] += snapshot.changes[k];
      for (std::size_t k = 0; k < snapshot.residents.size(); ++k) answers[k] += snapshot.residents[k];
    }

    MetricsText text;
    text.family("sluice_build_info", "gauge", "The version that runs.");
    text.sample("sluice_build_info", MetricsText::label("version", SLUICE_VERSION), 1);
    text.family("sluice_cores", "gauge", "Worker threads.");
    text.sample("sluice_cores", {}, static_cast<double>(workers_.size()));
    text.family("sluice_io_info", "gauge", "What the cores wait for their sockets with.");
    text.sample("sluice_io_info", MetricsText::label("io", name_of(plan_->io.back_end)), 1);
    servers.render(text);
    render(requests, plan_->names, text);
    std::vector<std::string> names;
    for (const auto& database : plan_->options.databases) names.push_back(database.name.value);
    databases.render(names, text);
    if (!plan_->options.files.empty()) render(files, text);
    if (!stores.empty()) {
      std::vector<std::string> store_names;
      for (const auto& store : plan_->options.stores) store_names.push_back(store.name.value);
      render(stores, store_names, text);
    }
    if (!plan_->options.compression.codings.empty()) render(compression, text);
    if (!plan_->options.websockets.empty()) render(websockets, text);
    if (plan_->request_log) {
      text.family("sluice_request_log_rows_total", "counter", "Requests that [request_log] wrote to its table.");
      text.sample("sluice_request_log_rows_total", {}, static_cast<double>(request_log.written));
      text.family("sluice_request_log_dropped_total", "counter", "Requests that it could not write.");
      text.sample("sluice_request_log_dropped_total", {}, static_cast<double>(request_log.dropped));
    }
    if (changes_ != nullptr) {
      std::vector<std::string> paths;
      for (const auto& feed : plan_->feeds) paths.push_back(feed.plan->path);
      render(changes, paths, text);
      render(changes_->listening(), names, text);
    }
    if (residents_ != nullptr) {
      std::vector<std::string> resident_names;
      for (const auto& resident : plan_->residents) resident_names.push_back(resident.plan->name);
      render(residents_->counters(), answers, resident_names, text);
    }
    if (!policies.empty()) {
      std::vector<std::string> policy_names;
      for (const auto& policy : plan_->options.policies) policy_names.push_back(policy.name.value);
      render(policies, policy_names, text);
    }
    co_return text_response("text/plain; version=0.0.4; charset=utf-8", text.take());
  }

  core::Core& core_;
  const std::shared_ptr<const Plan> plan_;
  std::span<Worker* const> workers_;
  const Changes* const changes_;      // null: nobody tells of any
  const Residents* const residents_;  // null: there are none
};

Admin::Admin(core::Core& core, std::shared_ptr<const Plan> plan, std::span<Worker* const> workers,
             const Changes* changes, const Residents* residents)
    : server_(core.reactor(), router_, http::ServerOptions{.connections = most_connections, .makes_room = true}) {
  const auto add = [&](std::string_view path, std::unique_ptr<http::Handler> handler) {
    http::Router::Route route{.pattern = *http::Pattern::parse(path)};
    route.handlers[static_cast<std::size_t>(http::Method::get)] = handler.get();
    [[maybe_unused]] const bool added = router_.add(route);
    SLUICE_ASSERT(added);
    handlers_.push_back(std::move(handler));
  };
  add("/livez", std::make_unique<Live>());
  add("/readyz", std::make_unique<Ready>(core, workers));
  add("/metrics", std::make_unique<Metrics>(core, std::move(plan), workers, changes, residents));
}

Admin::~Admin() = default;

void Admin::listen(const core::Address& address) {
  if (const auto bound = server_.listen(address); !bound) {
    throw std::system_error(bound.error().detail, std::generic_category(), "cannot listen on " + address.text());
  }
}

}  // namespace sluice::app
