// [[endpoint]]
#include "api/endpoint.h"

#include <algorithm>
#include <utility>

#include "api/changes/handler.h"
#include "api/file_endpoint.h"
#include "api/set_endpoint.h"
#include "api/write_endpoint.h"
#include "app/routes/kind.h"
#include "app/routes/prepare_endpoint.h"
#include "app/worker.h"

namespace sluice::app {
namespace {

using http::Method;

class EndpointRoute final : public Route {
 public:
  EndpointRoute(const api::EndpointOptions& options, PreparedEndpoint prepared, std::size_t database,
                std::vector<api::openapi::Security> security, Plan& plan, const Plan* previous)
      : options_(options), prepared_(std::move(prepared)), database_(database), security_(std::move(security)) {
    if (answers()) id_ = plan.add_name(options.host.value + options.path.value);
    if (!prepared_.changes) return;
    changes_id_ = plan.add_name(options.host.value + prepared_.changes->path);
    feed_ = plan.add_feed({.path = options.host.value + prepared_.changes->path,
                           .boot = Plan::new_boot(),
                           .options = prepared_.changes->options,
                           .require = options.require,
                           .policies = plan.policies(options.use),
                           .database = plan.databases[database]},
                          previous);
  }

  void build(Site& site) const override {
    if (answers()) build_methods(site);
    if (prepared_.changes) build_changes(site);
  }

  void describe(Described& into) const override {
    into.resources.push_back({.options = &options_,
                              .pattern = &prepared_.pattern,
                              .get = prepared_.get.get(),
                              .writes = prepared_.writes,
                              .sets = prepared_.sets,
                              .tables = prepared_.tables,
                              .never_null = prepared_.never_null,
                              .security = security_,
                              .changes = prepared_.changes.get()});
  }

  void add_call(std::size_t database, std::vector<api::batch::Plan::Route>& into) const override {
    if (database != database_) return;
    into.push_back({.pattern = &prepared_.pattern,
                    .host = options_.host.value,
                    .get = prepared_.get,
                    .writes = prepared_.writes,
                    .sets = prepared_.sets,
                    .options = &options_,
                    .id = id_});
  }

 private:
  [[nodiscard]] bool answers() const {
    return prepared_.get != nullptr || !prepared_.writes.empty() || !prepared_.sets.empty();
  }

  void build_methods(Site& site) const {
    const bool is_file = options_.returns == api::Returns::file;
    http::Router::Route route{.pattern = prepared_.pattern, .host = options_.host.value, .formats = !is_file};
    core::Reactor& reactor = site.worker().reactor();
    sql::Database& database = site.database(database_);
    TroubleLog* const trouble = site.trouble(database_);
    TroubleLog* const write_trouble = site.write_trouble(database_);
    const auto add = [&](Method method, std::unique_ptr<http::Handler> handler) {
      route.handlers[static_cast<std::size_t>(method)] = site.own(std::move(handler));
    };
    if (prepared_.get && is_file) {
      add(Method::get, std::make_unique<api::FileEndpoint>(prepared_.get, database, reactor,
                                                           site.store(options_.store.value), trouble));
    } else if (prepared_.get) {
      add(Method::get, std::make_unique<api::Endpoint>(prepared_.get, database, reactor, trouble));
    }
    for (const auto& write : prepared_.writes) {
      std::vector<http::BlobStore*> stores;
      for (const api::UploadPlan::File& file : write->uploads.files) stores.push_back(&site.store(file.store));
      add(write->method,
          std::make_unique<api::WriteEndpoint>(write, database, reactor, write_trouble, std::move(stores)));
    }
    for (const auto& set : prepared_.sets) {
      add(set->method, std::make_unique<api::SetEndpoint>(set, database, reactor, write_trouble));
    }
    site.add(id_, std::move(route), options_.use);
  }

  void build_changes(Site& site) const {
    http::Router::Route route{.pattern = prepared_.pattern, .host = options_.host.value};
    route.pattern.segments.push_back({http::Pattern::Kind::literal, "changes"});
    route.handlers[static_cast<std::size_t>(Method::get)] = site.own(
        std::make_unique<api::changes::Handler>(prepared_.changes, *site.feed(feed_.get()), site.database(database_),
                                                site.worker().reactor(), site.trouble(database_)));
    site.add(changes_id_, std::move(route), options_.use);
  }

  const api::EndpointOptions& options_;
  const PreparedEndpoint prepared_;
  const std::size_t database_;  // index in options.databases
  const std::vector<api::openapi::Security> security_;
  Plan::RouteId id_ = 0;
  Plan::RouteId changes_id_ = 0;
  std::shared_ptr<const Plan::Feed> feed_;  // null: it publishes no changes
};

// The longest body that the endpoint accepts: by its own limit, or by the sizes of its files and fields.
std::uint64_t most_body(const PreparedEndpoint& endpoint, const Options& options) {
  std::uint64_t most = 0;
  for (const auto& write : endpoint.writes) {
    most = std::max(most, write->body_limit);
    std::uint64_t files = 0;
    for (const api::UploadPlan::File& file : write->uploads.files) {
      files += options.stores[*options.find_store(file.store)].value.limit.value;
    }
    if (files != 0) most = std::max(most, options.server.body_limit + files);
  }
  for (const auto& set : endpoint.sets) most = std::max(most, set->body_limit);
  return most;
}

std::expected<void, Away> prepare_endpoint(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const api::EndpointOptions& options : plan.options.endpoints) {
    auto security = preparation.security(options.use);
    const std::size_t database = plan.options.index_of_database(options.database.value);
    if (!preparation.databases[database].database) continue;
    auto made = EndpointPreparation(preparation, options, database).prepare();
    if (!made) return std::unexpected(Away{database, std::move(made.error())});
    if (!*made) continue;
    plan.most_body = std::max(plan.most_body, most_body(**made, plan.options));
    plan.routes.push_back(std::make_unique<EndpointRoute>(options, std::move(**made), database, std::move(security),
                                                          plan, preparation.previous));
  }
  return {};
}

}  // namespace

extern const Kind endpoint_kind{prepare_endpoint};

}  // namespace sluice::app
