#include "app/prepare.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "api/batch/own_fields.h"
#include "api/openapi/document.h"
#include "app/certificates.h"
#include "app/cli.h"
#include "app/loop.h"
#include "app/near_name.h"
#include "app/opened_database.h"
#include "app/prepare_endpoint.h"
#include "app/prepare_resident.h"
#include "base/log.h"
#include "core/reactor.h"
#include "core/sleep.h"
#include "core/usable_cores.h"
#include "sql/plain_columns.h"
#include "sql/reading.h"

namespace sluice::app {
namespace {

// Until the database answers or `patience` is over; what is wrong with a password or a name does not pass with time.
core::Task<sql::Result<void>> reach(core::Reactor& reactor, sql::Database& database, const std::string& name,
                                    Duration patience) {
  constexpr Duration answer_wait = 10s;
  constexpr Duration pause = 200ms;
  const Instant end = reactor.now() + patience;
  for (bool told = false;;) {
    auto reached = co_await database.ping(reactor.now() + answer_wait);
    if (reached) {
      if (told) log_error("database " + name + ": reached");
      co_return reached;
    }
    const sql::Error& error = reached.error();
    const bool may_pass = error.failure != sql::Failure::statement && !error.sqlstate.starts_with("28");
    if (!may_pass || reactor.now() + pause > end) co_return reached;
    if (!told) log_error("database " + name + ": " + error.message + "; waiting for it");
    told = true;
    co_await core::Sleep(reactor, reactor.now() + pause);
  }
}

bool is_used(const Options& options, const std::string& policy) {
  const auto uses = [&](const auto& route) {
    return std::ranges::find(route.use, policy, &Located<std::string>::value) != route.use.end();
  };
  return std::ranges::any_of(options.endpoints, uses) || std::ranges::any_of(options.files, uses) ||
         std::ranges::any_of(options.residents, uses) || std::ranges::any_of(options.websockets, uses) ||
         (options.openapi && uses(*options.openapi)) || (options.batch && uses(*options.batch));
}

// Describes the endpoints and resident tables.
void publish(Plan& plan) {
  const auto security_of = [&](const std::vector<Located<std::string>>& use) {
    std::vector<api::openapi::Security> security;
    for (const auto& name : use) {
      const auto& policy = plan.options.policies[*plan.options.find_policy(name.value)];
      if (policy.value.type.value != gateway::PolicyType::jwt) continue;
      security.push_back({.policy = policy.name.value, .optional = policy.value.optional});
    }
    return security;
  };
  std::vector<api::openapi::Resource> resources;
  for (const Plan::Endpoint& endpoint : plan.endpoints) {
    const api::EndpointOptions& options = plan.options.endpoints[endpoint.index];
    api::openapi::Resource resource{.options = &options,
                                    .pattern = &endpoint.pattern,
                                    .get = endpoint.get.get(),
                                    .writes = endpoint.writes,
                                    .sets = endpoint.sets,
                                    .tables = endpoint.tables,
                                    .never_null = endpoint.never_null,
                                    .security = {},
                                    .changes = endpoint.changes.get()};
    resource.security = security_of(options.use);
    resources.push_back(std::move(resource));
  }
  std::vector<api::openapi::ResidentResource> residents;
  for (const Plan::Resident& resident : plan.residents) {
    const auto& options = plan.options.residents[resident.index];
    auto& resource = residents.emplace_back();
    resource = {.pattern = resident.pattern,
                .key_pattern = {},
                .plan = resident.plan.get(),
                .never_null = resident.never_null,
                .security = security_of(options.use)};
    if (!options.key.value.empty()) resource.key_pattern = resident.key_pattern();
  }
  std::optional<api::openapi::BatchResource> batch;
  if (const auto& options = plan.options.batch) {
    batch = {.path = options->path.value, .calls = options->calls, .security = security_of(options->use)};
  }
  auto document = api::openapi::make_document(*plan.options.openapi, resources, residents, batch ? &*batch : nullptr);
  for (std::string& warning : document.warnings) plan.warnings.push_back(std::move(warning));
  plan.openapi = std::make_shared<const api::openapi::Published>(std::move(document.text));
}

std::string random_hexadecimal() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

http::Pattern files_pattern(const std::string& path) {
  return *http::Pattern::parse(path + (path.ends_with('/') ? "" : "/") + "{file...}");
}

// An error is a database that is no longer there; nothing, where it was complained about.
sql::Result<std::optional<RequestLogPlan>> prepare_request_log(Loop& loop, const RequestLogOptions& options,
                                                               const sql::DatabaseOptions& database_options,
                                                               sql::Database& database,
                                                               std::vector<config::Diagnostic>& errors) {
  const auto dialect = database_options.is_sqlite() ? sql::Dialect::sqlite : sql::Dialect::postgres;
  const auto refused = [&](const sql::Error& error) -> sql::Result<std::optional<RequestLogPlan>> {
    if (error.failure == sql::Failure::unavailable || error.failure == sql::Failure::lost)
      return std::unexpected(error);
    errors.push_back({.position = options.table.position,
                      .message = "[request_log]: " + describe(error),
                      .hint = near_name(loop, database, dialect, options.table.value, error)});
    return std::nullopt;
  };
  const auto table = loop.run(sql::describe_table(database, dialect, options.table.value));
  if (!table) return refused(table.error());
  RequestLogPlan plan{.options = options, .items = RequestLogPlan::items_of(*table), .insert = {}};
  if (plan.items.empty()) {
    errors.push_back({.position = options.table.position,
                      .message = "[request_log]: the table has none of the columns that requests have",
                      .hint = "such as time, method, path, status, duration_us"});
    return std::nullopt;
  }
  auto insert = loop.run(database.prepare_writing(RequestLogPlan::insert_of(*table, plan.items, dialect), {}));
  if (!insert) return refused(insert.error());
  plan.insert = std::move(*insert);
  return plan;
}

}  // namespace

bool Plan::tells_of(std::size_t database) const {
  return std::ranges::any_of(changes, [&](std::size_t index) { return endpoints[index].database == database; });
}

std::expected<std::shared_ptr<const Plan>, Refusal> prepare(const config::Config& config, bool patient) {
  const auto plan = std::make_shared<Plan>();
  plan->options = config.options;
  plan->routes.emplace_back();

  Loop loop;
  std::vector<std::unique_ptr<sql::SharedDatabase>> shared;
  std::vector<std::unique_ptr<sql::Database>> databases;
  config::Errors errors{.source = config.source, .list = {}};
  const auto unreachable = [&](const sql::DatabaseOptions& options, const sql::Error& error) {
    return std::unexpected(
        Refusal{config.source.render({.position = options.url.position, .message = describe(error)}), exit_failure});
  };

  const ServerOptions& wanted = plan->options.server;
  if (auto io = choose_io(wanted.io.value, wanted.cores != 0 ? wanted.cores : core::usable_cores())) {
    plan->io = std::move(*io);
  } else {
    return std::unexpected(
        Refusal{config.source.render({.position = wanted.io.position, .message = io.error()}), exit_failure});
  }
  if (plan->options.server.tls) {
    const ServerOptions& server = plan->options.server;
    auto made = make_tls_context(*server.tls, server.alpn(), &plan->warnings);
    if (made) {
      plan->tls = std::move(*made);
    } else {
      errors.list.push_back({.position = made.error().position, .message = made.error().text});
    }
  }
  for (const auto& policy : plan->options.policies) {
    auto keys = gateway::jwt::load_keys(policy.value);
    if (!keys) {
      errors.list.push_back({.position = keys.error().position, .message = keys.error().text});
      continue;
    }
    for (const std::string& warning : (*keys)->warnings) plan->warnings.push_back(warning);
    if (!is_used(plan->options, policy.name.value)) {
      plan->warnings.push_back("nothing uses the policy \"" + policy.name.value + "\": it protects nothing");
    }
    plan->keys.push_back(std::move(*keys));
  }
  for (const auto& database : plan->options.databases) {
    auto opened = open_database(loop, plan->options, database);
    if (!opened) {
      errors.list.push_back({.position = database.value.url.position, .message = describe(opened.error())});
      databases.emplace_back();
      continue;
    }
    shared.push_back(std::move(opened->shared));
    databases.push_back(std::move(opened->database));
    const Duration patience = patient ? database.value.start_timeout.value : 0s;
    const auto reached = loop.run(reach(*loop.reactor, *databases.back(), database.name.value, patience));
    if (!reached) return unreachable(database.value, reached.error());
    for (const auto& [name, setting] : database.value.settings) {
      if (name.value.contains('.')) continue;  // of the operator's own
      const auto known = loop.run(databases.back()->prepare("SHOW " + name.value, {}));
      if (!known) errors.list.push_back({.position = name.position, .message = describe(known.error())});
    }
  }

  const std::string boot = random_hexadecimal();
  std::vector<std::shared_ptr<const sql::Constraints>> constraints(databases.size());
  for (const api::EndpointOptions& options : plan->options.endpoints) {
    const std::size_t index = plan->options.index_of_database(options.database.value);
    const sql::DatabaseOptions& database_options = plan->options.databases[index].value;
    if (!databases[index]) continue;  // complained about above
    EndpointPreparation preparation(loop, options, database_options, *databases[index], plan->options, boot,
                                    config.source, constraints[index], errors.list, plan->warnings);
    auto endpoint = preparation.prepare();
    if (!endpoint) return unreachable(database_options, endpoint.error());
    if (!*endpoint) continue;
    (*endpoint)->index = static_cast<std::size_t>(&options - plan->options.endpoints.data());
    (*endpoint)->database = index;
    if ((*endpoint)->answers()) (*endpoint)->route = plan->add_route(options.path.value);
    if ((*endpoint)->changes) {
      (*endpoint)->changes_route = plan->add_route((*endpoint)->changes->path);
      plan->changes.push_back(plan->endpoints.size());
    }
    plan->endpoints.push_back(std::move(**endpoint));
  }
  for (const auto& options : plan->options.residents) {
    const std::size_t index = plan->options.index_of_database(options.database.value);
    const sql::DatabaseOptions& database_options = plan->options.databases[index].value;
    if (!databases[index]) continue;
    auto made = prepare_resident(loop, options, database_options, *databases[index], config.source, errors.list);
    if (!made) return unreachable(database_options, made.error());
    if (!*made) continue;
    const std::string path = "/" + options.name.value;
    const Plan::RouteId route = plan->add_route(path);
    const Plan::RouteId key_route = options.key.value.empty() ? Plan::RouteId{} : plan->add_route(path + "/{key}");
    plan->residents.push_back({.pattern = *http::Pattern::parse(path),
                               .route = route,
                               .key_route = key_route,
                               .index = static_cast<std::size_t>(&options - plan->options.residents.data()),
                               .database = index,
                               .plan = std::move(*made),
                               .never_null = {}});
    if (plan->options.openapi) {
      auto& resident = plan->residents.back();
      const auto dialect = database_options.is_sqlite() ? sql::Dialect::sqlite : sql::Dialect::postgres;
      resident.never_null =
          loop.run(sql::never_null(*databases[index], dialect, options.query.value, resident.plan->statement.columns));
    }
  }
  for (const auto& store : plan->options.stores) {
    const files::StoreOptions& options = store.value;
    if (options.used.value.empty()) continue;
    const std::size_t index = plan->options.index_of_database(options.database.value);
    const sql::DatabaseOptions& database_options = plan->options.databases[index].value;
    if (!databases[index]) continue;
    sql::Database& database = *databases[index];
    auto prepared = loop.run(database.prepare(options.used.value, {}));
    if (prepared) {
      const auto reads = loop.run(sql::check_reading(database, database_options, options.used.value, {}));
      if (!reads) prepared = std::unexpected(reads.error());
    }
    if (prepared && prepared->columns.size() == 1 && prepared->parameters.empty()) continue;
    if (!prepared &&
        (prepared.error().failure == sql::Failure::unavailable || prepared.error().failure == sql::Failure::lost)) {
      return unreachable(database_options, prepared.error());
    }
    errors.list.push_back({.position = options.used.position,
                           .message = "store \"" + store.name.value + "\": " +
                                      (prepared ? "\"used\" returns one column, the hashes, and has no parameters"
                                                : describe(prepared.error()))});
  }
  if (plan->options.batch) {
    plan->batch_database = plan->options.index_of_database(plan->options.batch->database.value);
    plan->batch.emplace(api::batch::Plan{.options = *plan->options.batch,
                                         .routes = {},
                                         .limits = {.calls = plan->options.batch->calls,
                                                    .target = plan->options.server.target_limit.value,
                                                    .headers = plan->options.server.header_limit},
                                         .own_fields = {},
                                         .body_limit = plan->options.server.body_limit,
                                         .errors = api::ErrorMap::make({}, plan->options.errors)});
  }
  if (plan->options.request_log) {
    const std::size_t index = plan->options.index_of_database(plan->options.request_log->database.value);
    const sql::DatabaseOptions& database_options = plan->options.databases[index].value;
    if (databases[index]) {
      auto made =
          prepare_request_log(loop, *plan->options.request_log, database_options, *databases[index], errors.list);
      if (!made) return unreachable(database_options, made.error());
      plan->request_log = std::move(*made);
      if (plan->request_log) plan->request_log->database = index;
    }
  }
  if (!errors.list.empty()) {
    std::ranges::sort(errors.list, {}, &config::Diagnostic::position);
    return std::unexpected(Refusal{errors.text(), exit_configuration});
  }

  for (std::size_t i = 0; i < plan->options.files.size(); ++i) {
    const std::string& path = plan->options.files[i].path.value;
    plan->files.push_back({.pattern = files_pattern(path), .route = plan->add_route(path), .index = i});
  }
  for (std::size_t i = 0; i < plan->options.websockets.size(); ++i) {
    const std::string& path = plan->options.websockets[i].path.value;
    plan->websockets.push_back({.pattern = *http::Pattern::parse(path), .route = plan->add_route(path), .index = i});
  }
  if (plan->batch) {
    // Only now do the endpoints stay where they are.
    std::vector<const api::EndpointOptions*> called;
    for (std::size_t i = 0; i < plan->endpoints.size(); ++i) {
      const Plan::Endpoint& endpoint = plan->endpoints[i];
      if (endpoint.database != plan->batch_database) continue;
      plan->batch->routes.push_back({.pattern = &endpoint.pattern,
                                     .get = endpoint.get,
                                     .writes = endpoint.writes,
                                     .sets = endpoint.sets,
                                     .endpoint = endpoint.index});
      called.push_back(&plan->options.endpoints[endpoint.index]);
    }
    const auto role = api::role_plan(plan->options.databases[plan->batch_database].value);
    plan->batch->own_fields = api::batch::own_fields(role.get(), called);
    plan->batch_route = plan->add_route(plan->options.batch->path.value);
  }
  if (plan->options.openapi) {
    publish(*plan);
    plan->openapi_route = plan->add_route(plan->options.openapi->path.value);
  }
  return plan;
}

}  // namespace sluice::app
