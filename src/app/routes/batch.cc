// [batch]
#include "api/batch/batch.h"

#include <utility>

#include "api/batch/own_fields.h"
#include "app/routes/kind.h"
#include "app/worker.h"

namespace sluice::app {
namespace {

class BatchRoute final : public Route {
 public:
  BatchRoute(api::batch::Plan plan, Plan::RouteId id, std::size_t database,
             std::vector<api::openapi::Security> security)
      : plan_(std::move(plan)), id_(id), database_(database), security_(std::move(security)) {}

  void build(Site& site) const override {
    std::vector<std::vector<std::shared_ptr<http::Filter>>> filters;
    for (const auto& called : plan_.routes) filters.push_back(site.filters(called.options->use));
    http::Router::Route route{.pattern = *http::Pattern::parse(plan_.options.path.value)};
    route.handlers[static_cast<std::size_t>(http::Method::post)] = site.own(std::make_unique<api::batch::Batch>(
        plan_, site.database(database_), std::move(filters), site.worker().reactor(), site.trouble(database_),
        site.write_trouble(database_)));
    site.add(id_, std::move(route), plan_.options.use);
  }

  void describe(Described& into) const override {
    into.batch = {.path = plan_.options.path.value, .calls = plan_.options.calls, .security = security_};
  }

 private:
  const api::batch::Plan plan_;
  const Plan::RouteId id_;
  const std::size_t database_;  // index in options.databases
  const std::vector<api::openapi::Security> security_;
};

std::expected<void, Away> prepare_batch(Preparation& preparation) {
  const Options& options = preparation.options();
  if (!options.batch) return {};
  Plan& plan = preparation.plan;
  const std::size_t database = options.index_of_database(options.batch->database.value);
  std::vector<api::batch::Plan::Route> calls;
  for (const auto& route : plan.routes) route->add_call(database, calls);
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
  plan.routes.push_back(std::make_unique<BatchRoute>(std::move(batch), plan.add_name(options.batch->path.value),
                                                     database, preparation.security(options.batch->use)));
  return {};
}

}  // namespace

extern const Kind batch_kind{prepare_batch};

}  // namespace sluice::app
