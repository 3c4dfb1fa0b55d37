// [batch]
#include "api/batch/batch.h"

#include <algorithm>
#include <utility>

#include "api/batch/own_fields.h"
#include "app/config/difference.h"
#include "app/routes/kind.h"
#include "app/worker.h"

namespace sluice::app {
namespace {

class BatchRoute final : public Route {
 public:
  // `called`: the routes that `plan` refers to.
  BatchRoute(api::batch::Plan plan, std::vector<std::shared_ptr<const Route>> called, Plan::RouteId id,
             std::shared_ptr<Plan::Database> database, std::vector<api::openapi::Security> security)
      : plan_(std::move(plan)),
        called_(std::move(called)),
        id_(id),
        database_(std::move(database)),
        security_(std::move(security)) {}

  void build(Site& site) const override {
    Site::Builder builder(site, id_, shared_from_this(), plan_.options.use);
    std::vector<http::Binding::Filters> filters;
    for (const auto& called : plan_.routes) filters.push_back(builder.filters(called.options->use));
    http::Router::Route route{.pattern = *http::Pattern::parse(plan_.options.path.value)};
    route.handlers[static_cast<std::size_t>(http::Method::post)] = builder.own(std::make_unique<api::batch::Batch>(
        plan_, builder.part(*database_), std::move(filters), builder.worker().reactor(), &database_->trouble,
        &database_->write_trouble));
    builder.add(std::move(route));
  }

  Id id() const override { return id_; }
  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const BatchRoute*>(&before);
    const auto instance_of = [](const std::shared_ptr<const Route>& route) { return route->instance; };
    return other != nullptr && database_ == other->database_ && config::same(plan_.options, other->plan_.options) &&
           std::ranges::equal(called_, other->called_, {}, instance_of, instance_of);
  }

  void describe(Described& into) const override {
    into.batch = {.path = plan_.options.path.value, .calls = plan_.options.calls, .security = security_};
  }

 private:
  const api::batch::Plan plan_;
  const std::vector<std::shared_ptr<const Route>> called_;
  const Plan::RouteId id_;
  const std::shared_ptr<Plan::Database> database_;
  const std::vector<api::openapi::Security> security_;
};

std::expected<void, Away> prepare_batch(Preparation& preparation) {
  const Options& options = preparation.options();
  if (!options.batch) return {};
  Plan& plan = preparation.plan;
  const std::size_t database = options.index_of_database(options.batch->database.value);
  std::vector<api::batch::Plan::Route> calls;
  std::vector<std::shared_ptr<const Route>> called_routes;
  for (const auto& route : plan.routes) {
    if (route->add_call(database, calls)) called_routes.push_back(route);
  }
  std::vector<const api::EndpointOptions*> called;
  for (const auto& call : calls) called.push_back(call.options);
  const auto role = api::role_plan(options.databases[database].value);
  api::batch::Plan batch{.options = *options.batch,
                         .routes = std::move(calls),
                         .limits = {.calls = options.batch->calls,
                                    .target = options.server.target_limit.value,
                                    .headers = options.server.header_limit},
                         .own_fields = api::batch::own_fields(role.get(), called),
                         .body_limit = options.server.body_limit,
                         .errors = api::ErrorMap::make({}, options.errors)};
  plan.routes.push_back(std::make_shared<BatchRoute>(std::move(batch), std::move(called_routes),
                                                     plan.add_name(options.batch->path.value), plan.databases[database],
                                                     preparation.security(options.batch->use)));
  return {};
}

}  // namespace

extern const Kind batch_kind{prepare_batch};

}  // namespace sluice::app
