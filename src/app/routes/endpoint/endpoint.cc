// [[endpoint]]
#include "api/endpoint.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "api/changes/handler.h"
#include "api/file_endpoint.h"
#include "api/list/endpoint.h"
#include "api/set_endpoint.h"
#include "api/write_endpoint.h"
#include "app/config/difference.h"
#include "app/explain/answer.h"
#include "app/prepare/preparation.h"
#include "app/routes/endpoint/explain.h"
#include "app/routes/endpoint/prepare_endpoint.h"
#include "app/routes/endpoint/tables.h"
#include "app/routes/shapes.h"
#include "app/site.h"

namespace sluice::app {
namespace {

using http::Method;

class EndpointRoute final : public Route {
 public:
  EndpointRoute(Plan& plan, const api::EndpointOptions& options, PreparedEndpoint prepared, std::size_t database,
                std::vector<std::pair<Method, std::vector<api::openapi::Security>>> security, const Plan* previous)
      : Route(plan, shapes_of<EndpointTables>(options)),
        options_(options),
        prepared_(std::move(prepared)),
        database_(database),
        shared_(plan.databases[database]),
        store_(options.returns == api::Returns::file ? plan.store(options.store.value) : nullptr),
        policies_(all_policies(options, plan)),
        security_(std::move(security)) {
    for (const auto& write : prepared_.writes) {
      for (const auto& file : write->uploads.files) upload_stores_[file.store] = plan.store(file.store);
    }
    if (std::ranges::any_of(prepared_.writes, [](const auto& write) { return write->has_password; })) {
      passwords_ = plan.add(std::make_shared<PasswordsComponent>(), previous);
    }
    if (!prepared_.changes) return;
    feed_ = plan.add(
        std::make_shared<FeedComponent>(FeedComponent::Options{.path = options.host.value + prepared_.changes->path,
                                                               .boot = Plan::new_boot(),
                                                               .options = prepared_.changes->options,
                                                               .require = options.require,
                                                               .policies = plan.policies_of(options.use),
                                                               .database = plan.databases[database]}),
        previous);
  }

  void build(Site& site) const override {
    for (const Shape& shape : shapes()) is_changes(shape) ? build_changes(site, shape) : build_methods(site, shape);
  }
  void explain(AnswerExplainer& into, const Shape& shape, http::Exchange& exchange) const override {
    if (!is_changes(shape)) return explain_endpoint(into, options_, prepared_, exchange);
    into.add("changes", "a stream of the changes of " + options_.path.value);
    into.add("database", options_.database.value);
  }

  void describe(Described& into) const override {
    into.resources.push_back({.options = &options_,
                              .pattern = &prepared_.pattern,
                              .get = prepared_.get.get(),
                              .writes = prepared_.writes,
                              .sets = prepared_.sets,
                              .tables = prepared_.tables,
                              .facts = prepared_.facts,
                              .enums = *prepared_.enums,
                              .security = security_,
                              .changes = prepared_.changes.get()});
  }

  bool add_call(std::size_t database, std::vector<api::batch::Plan::Route>& into) const override {
    if (database != database_) return false;
    into.push_back({.pattern = &prepared_.pattern,
                    .host = options_.host.value,
                    .get = prepared_.get,
                    .writes = prepared_.writes,
                    .sets = prepared_.sets,
                    .options = &options_,
                    .id = id()});
    return true;
  }

  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const EndpointRoute*>(&before);
    const auto id_of = [](const auto& plan) { return plan != nullptr ? plan->statement.id : sql::StatementId{}; };
    const auto main_id_of = [](const auto& write) { return write->main.statement.id; };
    return other != nullptr && shared_ == other->shared_ && feed_ == other->feed_ && passwords_ == other->passwords_ &&
           config::same(options_, other->options_) && config::same(policies_, other->policies_) &&
           id_of(prepared_.get) == id_of(other->prepared_.get) &&
           std::ranges::equal(prepared_.writes, other->prepared_.writes, {}, main_id_of, main_id_of);
  }

 private:
  [[nodiscard]] bool is_changes(const Shape& shape) const { return shape.path != options_.path.value; }

  // The policies of the endpoint, then those of each method that writes.
  static Policies all_policies(const api::EndpointOptions& options, const Plan& plan) {
    Policies all = plan.policies_of(options.use);
    for (const auto& [method, writing] : options.writing_methods()) {
      for (auto& policy : plan.policies_of(writing->use)) all.push_back(std::move(policy));
    }
    return all;
  }

  void build_methods(Site& site, const Shape& shape) const {
    const bool is_file = options_.returns == api::Returns::file;
    Site::Builder builder(site, *this, shape);
    core::Reactor& reactor = builder.reactor();
    sql::Database& database = builder.part(*shared_);
    TroubleLog* const trouble = &shared_->trouble;
    TroubleLog* const write_trouble = &shared_->write_trouble;
    std::map<Method, http::Handler*> handlers;
    const auto add = [&](Method method, std::unique_ptr<http::Handler> handler) {
      handlers[method] = builder.own(std::move(handler));
    };
    if (prepared_.get && is_file) {
      add(Method::get,
          std::make_unique<api::FileEndpoint>(prepared_.get, database, reactor, builder.part(*store_), trouble));
    } else if (prepared_.get && prepared_.get->list) {
      add(Method::get, std::make_unique<api::list::Endpoint>(prepared_.get, database, reactor, trouble));
    } else if (prepared_.get) {
      add(Method::get, std::make_unique<api::Endpoint>(prepared_.get, database, reactor, trouble));
    }
    for (const auto& write : prepared_.writes) {
      std::vector<http::BlobStore*> stores;
      for (const api::UploadPlan::File& file : write->uploads.files) {
        stores.push_back(&builder.part(*upload_stores_.at(file.store)));
      }
      api::PasswordHasher* const hasher = write->has_password ? &builder.part(*passwords_) : nullptr;
      add(write->method,
          std::make_unique<api::WriteEndpoint>(write, database, reactor, write_trouble, std::move(stores),
                                               api::WriteEndpoint::Retries::own, hasher));
    }
    for (const auto& set : prepared_.sets) {
      add(set->method, std::make_unique<api::SetEndpoint>(set, database, reactor, write_trouble));
    }
    builder.add([&](Method method) { return handlers.at(method); });
  }

  void build_changes(Site& site, const Shape& shape) const {
    Site::Builder builder(site, *this, shape);
    builder.add(builder.own(std::make_unique<api::changes::Handler>(
        prepared_.changes, builder.part(*feed_), builder.part(*shared_), builder.reactor(), &shared_->trouble)));
  }

  const api::EndpointOptions options_;
  const PreparedEndpoint prepared_;
  const std::size_t database_;  // index in options.databases
  const std::shared_ptr<Plan::Database> shared_;
  const std::shared_ptr<const StoreComponent> store_;                           // null: the answers are no files
  std::map<std::string, std::shared_ptr<const StoreComponent>> upload_stores_;  // by name
  const Policies policies_;
  const std::vector<std::pair<Method, std::vector<api::openapi::Security>>> security_;  // GET is always there
  std::shared_ptr<const PasswordsComponent> passwords_;                                 // null: it hashes none
  std::shared_ptr<const FeedComponent> feed_;                                           // null: it publishes no changes
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

}  // namespace

std::expected<void, Away> EndpointTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const api::EndpointOptions& options : plan.options.endpoints) {
    std::vector<std::pair<Method, std::vector<api::openapi::Security>>> security;
    security.emplace_back(Method::get, preparation.security(options.use));
    for (const auto& [method, writing] : options.writing_methods()) {
      security.emplace_back(method, preparation.security(writing->use));
    }
    const std::size_t database = plan.options.index_of_database(options.database.value);
    if (!preparation.databases[database].database) continue;
    auto made = EndpointPreparation(preparation, options, database).prepare();
    if (!made) return std::unexpected(Away{database, std::move(made.error())});
    if (!*made) continue;
    plan.most_body = std::max(plan.most_body, most_body(**made, plan.options));
    plan.routes.push_back(std::make_shared<EndpointRoute>(plan, options, std::move(**made), database,
                                                          std::move(security), preparation.previous));
  }
  return {};
}

}  // namespace sluice::app
