// [batch]
#include "api/batch/batch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "api/batch/own_fields.h"
#include "app/config/checks.h"
#include "app/config/difference.h"
#include "app/explain/answer.h"
#include "app/prepare/preparation.h"
#include "app/routes/batch/tables.h"
#include "app/routes/shapes.h"
#include "app/site.h"
#include "base/ascii.h"

namespace sluice::app {
namespace {

class BatchRoute final : public Route {
 public:
  // `called`: the routes that `plan` refers to.
  BatchRoute(Plan& plan, api::batch::Plan batch, std::vector<std::shared_ptr<const Route>> called,
             std::shared_ptr<Plan::Database> database, std::vector<api::openapi::Security> security)
      : Route(plan, shapes_of<BatchTable>(batch.options)),
        plan_(std::move(batch)),
        called_(std::move(called)),
        database_(std::move(database)),
        security_(std::move(security)) {}

  void build(Site& site) const override {
    Site::Builder builder(site, *this, shapes().front());
    std::vector<api::batch::Batch::Filters> filters;
    for (const auto& called : plan_.routes) {
      auto& its = filters.emplace_back(builder.filters(called.options->use));
      for (const auto& [method, writing] : called.options->writing_methods()) {
        its.of_methods.emplace_back(method, builder.filters(writing->use));
      }
    }
    builder.add(builder.own(std::make_unique<api::batch::Batch>(plan_, builder.part(*database_), std::move(filters),
                                                                builder.reactor(), &database_->trouble,
                                                                &database_->write_trouble)));
  }
  void explain(AnswerExplainer& into, const Shape&, http::Exchange&) const override {
    into.add("batch", "the calls in the body, in one transaction");
    into.add("database", plan_.options.database.value);
  }

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
  const std::shared_ptr<Plan::Database> database_;
  const std::vector<api::openapi::Security> security_;
};

// The header fields that no call may set. Besides those of own_fields(), the policies of the batch and of its calls
// decide by fields that a proxy controls on the batch's own request.
std::vector<std::string> fields_of_batch(const Options& options, const api::RolePlan* role,
                                         const std::vector<const api::EndpointOptions*>& called) {
  std::vector<std::string> fields = api::batch::own_fields(role, called);
  const auto add = [&](const std::vector<Located<std::string>>& use) {
    for (const auto& name : use) {
      for (const std::string& field : options.policies[*options.find_policy(name.value)].value.read_fields()) {
        fields.push_back(to_lower(field));
      }
    }
  };
  add(options.batch->use);
  for (const api::EndpointOptions* const endpoint : called) {
    add(endpoint->use);
    for (const auto& [method, writing] : endpoint->writing_methods()) add(writing->use);
  }
  return fields;
}

// Policies of type "api-key" and "basic" without `pass` remove the credentials from an accepted batch request, so the
// calls in it have no credentials. So do those of type "jwt", except for the Authorization field.
void check_batch_keeps_keys(const config::Checks& checks, const Located<std::string>& name) {
  const auto index = checks.options.find_policy(name.value);
  if (!index) return;
  const gateway::PolicyOptions& policy = checks.options.policies[*index].value;
  const gateway::PolicyType type = policy.type.value;
  const bool takes_off = (policy.is<gateway::jwt::Options>() && policy.of<gateway::jwt::Options>().takes_off()) ||
                         (policy.is<gateway::apikey::Options>() && !policy.of<gateway::apikey::Options>().pass) ||
                         (policy.is<gateway::basic::Options>() && !policy.of<gateway::basic::Options>().pass);
  if (!takes_off) return;
  for (const api::EndpointOptions& endpoint : checks.options.endpoints) {
    const bool needs_them = checks.options.uses(endpoint.use, type) ||
                            std::ranges::any_of(endpoint.writing_methods(), [&](const auto& one) {
                              return checks.options.uses(one.second->use, type);
                            });
    if (!needs_them) continue;
    checks.complain(name.position,
                    fmt::format("[policy.{}] removes the credentials of a batch, but its calls of {} need them",
                                name.value, endpoint.path.value),
                    "leave it out of [batch]: the policies of each call apply; or add pass = true to the policy");
    return;
  }
}

}  // namespace

std::expected<void, Away> BatchTable::prepare(Preparation& preparation) {
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
                         .own_fields = fields_of_batch(options, role.get(), called),
                         .body_limit = options.server.body_limit,
                         .errors = api::ErrorMap::make({}, options.errors)};
  plan.routes.push_back(std::make_shared<BatchRoute>(plan, std::move(batch), std::move(called_routes),
                                                     plan.databases[database],
                                                     preparation.security(options.batch->use)));
  return {};
}

void BatchTable::check(config::Checks& checks) {
  if (!checks.options.batch) return;
  api::batch::Options& batch = *checks.options.batch;
  checks.check_use(batch.use);
  for (const auto& name : batch.use) check_batch_keeps_keys(checks, name);
  if (const auto pattern = checks.parse_path(batch.path); pattern && !pattern->names().empty()) {
    checks.complain(batch.path.position, "the path of [batch] has no parameters");
  }
  checks.choose_database(batch.database, batch.position, "[batch]");
  const auto* database = checks.database_of(batch.database.value);
  if (database != nullptr && database->is_sqlite() && batch.retries.position.line != 0 && batch.retries.value != 0) {
    checks.complain(batch.retries.position,
                    "\"retries\" is for PostgreSQL: SQLite has one writer at a time; others wait");
  }
  const auto called = [&](const api::EndpointOptions& endpoint) {
    return endpoint.database.value == batch.database.value;
  };
  if (!checks.has_errors() && std::ranges::none_of(checks.options.endpoints, called)) {
    checks.complain(batch.position,
                    fmt::format("no endpoint of the database \"{}\" could be called", batch.database.value));
  }
}

std::vector<Shape> BatchTable::shapes(const api::batch::Options& options) {
  const auto& [path, position] = options.path;
  return {{.path = path,
           .position = position.line == 0 ? options.position : position,
           .use = options.use,
           .methods = {http::Method::post}}};
}

}  // namespace sluice::app
