#include "app/prepare/prepare.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "app/commands/exit_code.h"
#include "app/components/key_source/prepare.h"
#include "app/components/policy/prepare.h"
#include "app/config/difference.h"
#include "app/config/digest.h"
#include "app/config/near_name.h"
#include "app/config/tls_context.h"
#include "app/prepare/loop.h"
#include "app/prepare/opened_database.h"
#include "app/prepare/preparation.h"
#include "app/prepare/recorded_database.h"
#include "app/routes/shapes.h"
#include "base/log.h"
#include "core/reactor.h"
#include "core/sleep.h"
#include "core/usable_cores.h"
#include "sql/reading.h"

namespace sluice::app {
namespace {

// Retries until the database answers or `patience` has passed. A wrong password or name is not retried, because it will
// not change.
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

FileId file_id_of(const sql::DatabaseOptions& options) {
  if (!options.is_sqlite()) return {};
  return FileId::of(options.url.value.substr(std::string_view("sqlite:").size()));
}

// The observers of another database with the same file, in this or the previous plan. They are shared so that a
// listener sees all commits to the file, including those of requests that the previous plan still serves.
std::shared_ptr<sql::CommitObservers> observers_of(const FileId& file, const Plan& plan, const Plan* previous) {
  for (const Plan* one : {previous, &plan}) {
    if (one == nullptr) continue;
    const auto same = std::ranges::find_if(one->databases, [&](const auto& database) {
      return database && database->file == file && database->observers;
    });
    if (same != one->databases.end()) return (*same)->observers;
  }
  return std::make_shared<sql::CommitObservers>();
}

// Returns the database of the previous plan if it has the same options, except for those of Database::resize(), and, if
// this plan writes, allows writes.
std::shared_ptr<Plan::Database> planned(const Plan& plan, std::size_t index, const Plan* previous) {
  const Options& options = plan.options;
  const auto& database = options.databases[index];
  auto made = std::make_shared<Plan::Database>(database);
  made->file = file_id_of(database.value);
  made->writes = database.value.is_sqlite() && options.writes_to(database.name.value);
  for (std::size_t i = 0; previous != nullptr && i < previous->databases.size(); ++i) {
    const auto& before = previous->options.databases[i];
    const std::shared_ptr<Plan::Database>& kept = previous->databases[i];
    if (kept->file != made->file || (made->writes && !kept->writes)) continue;
    if (before.name.value != database.name.value) continue;
    auto as_before = database.value;
    as_before.pool = before.value.pool;
    as_before.wait = before.value.wait;
    if (config::same(before.value, as_before)) return kept;
  }
  if (database.value.is_sqlite()) made->observers = observers_of(made->file, plan, previous);
  return made;
}

// The previous plan's recording of the same database.
std::shared_ptr<const Recording> recording_of(const Plan* previous, const std::shared_ptr<Plan::Database>& database) {
  if (previous == nullptr) return nullptr;
  const auto found = std::ranges::find(previous->databases, database);
  if (found == previous->databases.end()) return nullptr;
  return previous->recordings[static_cast<std::size_t>(found - previous->databases.begin())];
}

// How long a reload waits for one answer. This is less than the database's own timeout of 30 s, after which the
// database would go on to the next statement.
Duration answer_limit(const sql::DatabaseOptions& options, const Plan* previous) {
  return previous != nullptr ? std::clamp<Duration>(options.start_timeout.value, 1s, 25s) : Duration::max();
}

// Whether the server cannot be reached, or is starting or shutting down. False for other errors that it returns.
bool is_silent(const sql::Error& error) {
  return error.failure != sql::Failure::statement && (error.sqlstate.empty() || error.sqlstate.starts_with("57P"));
}

std::expected<void, Away> prepare_request_log(Preparation& preparation) {
  if (!preparation.options().request_log) return {};
  const RequestLogOptions& options = *preparation.options().request_log;
  const std::size_t index = preparation.options().index_of_database(options.database.value);
  sql::Database* const database = preparation.databases[index].database.get();
  if (database == nullptr) return {};
  Loop& loop = preparation.loop;
  const sql::Dialect dialect = preparation.options().databases[index].value.dialect();
  const auto refused = [&](const sql::Error& error) -> std::expected<void, Away> {
    if (is_away(error)) return std::unexpected(Away{index, error});
    preparation.errors.push_back({.position = options.table.position,
                                  .message = "[request_log]: " + describe(error),
                                  .hint = near_name(loop, *database, dialect, options.table.value, error)});
    return {};
  };
  const auto table = loop.run(sql::describe_table(*database, dialect, options.table.value));
  if (!table) return refused(table.error());
  RequestLogPlan plan{.options = options, .items = RequestLogPlan::items_of(*table), .insert = {}};
  for (std::string& name : preparation.options().names_of_keys()) plan.options.redact.push_back(std::move(name));
  if (plan.items.empty()) {
    preparation.errors.push_back({.position = options.table.position,
                                  .message = "[request_log]: the table has none of the columns that requests have",
                                  .hint = "such as time, method, path, status, duration_us"});
    return {};
  }
  auto insert = loop.run(database->prepare_writing(RequestLogPlan::insert_of(*table, plan.items, dialect), {}));
  if (!insert) return refused(insert.error());
  plan.insert = std::move(*insert);
  const Plan* const before = preparation.previous;
  const bool is_same =
      before != nullptr && before->request_log && config::same(before->request_log->options, plan.options) &&
      before->request_log->insert.id == plan.insert.id &&
      before->databases[before->options.index_of_database(options.database.value)] == preparation.plan.databases[index];
  preparation.plan.request_log =
      is_same ? before->request_log : std::make_shared<const RequestLogPlan>(std::move(plan));
  return {};
}

// Gives routes that have not changed the instances of the previous plan. In the order of the plan: a batch compares the
// instances of the routes that it calls.
void keep_instances(Plan& plan, const Plan* previous) {
  if (previous == nullptr) return;
  std::map<Route::Id, std::vector<const Route*>> before;  // routes with conditions can have the same id
  for (const auto& route : previous->routes) before[route->id()].push_back(route.get());
  for (const auto& route : plan.routes) {
    const auto& candidates = before[route->id()];
    const auto same = std::ranges::find_if(candidates, [&](const Route* one) { return route->is_same(*one); });
    if (same != candidates.end()) route->instance = (*same)->instance;
  }
}

}  // namespace

std::vector<api::openapi::Security> Preparation::security(const std::vector<Located<std::string>>& use) {
  std::vector<api::openapi::Security> security;
  for (const auto& name : use) {
    used_policies.insert(name.value);
    const auto& policy = plan.options.policies[*plan.options.find_policy(name.value)];
    using Scheme = api::openapi::Security::Scheme;
    const auto add = [&](bool is_optional, Scheme scheme = {}, std::string parameter = {}) {
      security.push_back({.policy = policy.name.value,
                          .optional = is_optional || policy.value.dry_run.value,
                          .scheme = scheme,
                          .name = std::move(parameter)});
    };
    // A document names one place for each policy: the first.
    const auto add_place = [&](bool optional, const gateway::Place& place) {
      using In = gateway::Place::In;
      if (place.is_authorization()) return add(optional);
      const Scheme scheme = place.in == In::header  ? Scheme::header
                            : place.in == In::query ? Scheme::query
                                                    : Scheme::cookie;
      add(optional, scheme, place.name);
    };
    policy.value.visit([&](const auto& kind) {
      using Kind = std::remove_cvref_t<decltype(kind)>;
      if constexpr (std::is_same_v<Kind, gateway::jwt::Options>) {
        add_place(kind.optional, kind.places().front());
      } else if constexpr (std::is_same_v<Kind, gateway::basic::Options>) {
        add(kind.optional, Scheme::basic);
      } else if constexpr (std::is_same_v<Kind, gateway::apikey::Options>) {
        if (kind.query) return add(kind.optional, Scheme::query, kind.query->value);
        if (kind.cookie) return add(kind.optional, Scheme::cookie, kind.cookie->value);
        add(kind.optional, Scheme::header, kind.header.value);
      }
    });
  }
  return security;
}

std::shared_ptr<const std::vector<sql::EnumType>> Preparation::enums_of(std::size_t database) {
  auto& enums = databases[database].enums;
  if (enums == nullptr) {
    sql::Result<std::vector<sql::EnumType>> read;
    const bool has_enums = options().databases[database].value.dialect() == sql::Dialect::postgres;
    if (options().openapi && has_enums) read = loop.run(sql::read_enums(*databases[database].database));
    // The description says less if they cannot be read.
    enums = std::make_shared<const std::vector<sql::EnumType>>(read ? std::move(*read) : std::vector<sql::EnumType>());
  }
  return enums;
}

std::expected<std::shared_ptr<const Plan>, Refusal> prepare(const config::Config& config, bool patient,
                                                            const Plan* previous) {
  const auto plan = std::make_shared<Plan>();
  plan->options = config.options;
  plan->digest = config::digest_of(config.source);
  plan->masked_text = config.source.masked();
  plan->secrets = config.source.secrets();
  plan->warnings = config.warnings;
  if (previous != nullptr) plan->names = previous->names;
  const Options& options = plan->options;
  const ServerOptions& server = options.server;
  plan->cores = previous != nullptr       ? previous->cores
                : server.cores.value != 0 ? server.cores.value
                                          : core::usable_cores();

  Loop loop;
  config::Errors errors{.source = config.source, .list = {}};
  Preparation preparation{.loop = loop,
                          .plan = *plan,
                          .previous = previous,
                          .cores = plan->cores,
                          .advises = !patient && previous == nullptr,
                          .source = config.source,
                          .errors = errors.list,
                          .databases = {},
                          .used_policies = {}};
  const auto unreachable = [&](const Away& away) {
    const Position position = options.databases[away.database].value.url.position;
    return std::unexpected(
        Refusal{config.source.render({.position = position, .message = describe(away.error)}), exit_failure});
  };

  if (auto io = choose_io(server.io.value, plan->cores)) {
    plan->io = std::move(*io);
  } else {
    return std::unexpected(
        Refusal{config.source.render({.position = server.io.position, .message = io.error()}), exit_failure});
  }
  if (server.tls) {
    auto made = make_tls_context(*server.tls, server.alpn(), &plan->warnings);
    if (made) {
      plan->tls = std::move(*made);
    } else {
      errors.list.push_back({.position = made.error().position, .message = made.error().text});
    }
  }
  if (options.login) {
    auto keys = login::Keys::load(*options.login);
    if (keys) {
      plan->login_keys = std::move(*keys);
    } else {
      errors.list.push_back({.position = keys.error().position, .message = "[login]: " + keys.error().text});
    }
  }
  for (const auto& policy : options.policies) {
    const auto& jwt = policy.value.of<gateway::jwt::Options>();
    if (jwt.revocations) {
      if (auto added = add_revocations(*plan, jwt.revocations->value, previous); !added) {
        errors.list.push_back({.position = jwt.revocations->position, .message = added.error()});
      } else if (plan->revocations_at(jwt.revocations->value)->is_new() && previous == nullptr) {
        plan->warnings.push_back("policy " + policy.name.value +
                                 ": the file of revocations does not exist yet, so nothing is revoked");
      }
    }
    if (jwt.jwks_url) {
      plan->keys.emplace_back();
      if (auto added = add_key_source(*plan, jwt, plan->cores, previous); !added) {
        errors.list.push_back({.position = added.error().position, .message = added.error().text});
      }
      continue;
    }
    if (!policy.value.is<gateway::jwt::Options>()) {
      plan->keys.emplace_back();
      continue;
    }
    if (jwt.by_login) {
      plan->keys.push_back(plan->login_keys ? plan->login_keys->verifying() : nullptr);
      continue;
    }
    auto keys = gateway::jwt::load_keys(jwt);
    if (!keys) {
      errors.list.push_back({.position = keys.error().position, .message = keys.error().text});
      continue;
    }
    for (const std::string& warning : (*keys)->warnings) plan->warnings.push_back(warning);
    plan->keys.push_back(std::move(*keys));
  }
  std::vector<std::pair<std::size_t, const RecordedDatabase*>> away;
  for (std::size_t i = 0; i < options.databases.size(); ++i) {
    const auto& database = options.databases[i];
    auto opened = open_database(loop, options, database);
    Preparation::Opened& here = preparation.databases.emplace_back();
    if (!opened) {
      // Another program holds a lock, or the disk is full. A missing file has no code: the configuration is wrong.
      if (is_away(opened.error()) && !opened.error().sqlstate.empty()) return unreachable({i, opened.error()});
      errors.list.push_back({.position = database.value.url.position, .message = describe(opened.error())});
      plan->databases.emplace_back();  // a plan with errors is never served
      continue;
    }
    here.shared = std::move(opened->shared);
    here.database = std::move(opened->database);
    const auto& kept = plan->databases.emplace_back(planned(*plan, i, previous));
    plan->components.push_back(kept);
    RecordedDatabase* recorded = nullptr;
    if (!database.value.is_sqlite()) {
      auto made =
          std::make_unique<RecordedDatabase>(std::move(here.database), database.name.value, loop,
                                             answer_limit(database.value, previous), recording_of(previous, kept));
      recorded = made.get();
      here.database = std::move(made);
    }
    plan->recordings.push_back(recorded != nullptr ? recorded->recording() : nullptr);
    here.database->share_ids(kept->ids);
    const Duration patience = patient ? database.value.start_timeout.value : 0s;
    const auto reached = loop.run(reach(*loop.reactor, *here.database, database.name.value, patience));
    if (!reached) {
      if (recorded == nullptr || !is_silent(reached.error()) || !recorded->set_away(reached.error())) {
        return unreachable({i, reached.error()});
      }
      away.emplace_back(i, recorded);
      plan->warnings.push_back(fmt::format("database \"{}\" is away, its statements are taken as they are served: {}",
                                           database.name.value, describe(reached.error())));
    }
    for (const auto& [name, setting] : database.value.settings) {
      if (name.value.contains('.')) continue;  // a custom setting of the operator
      const auto known = loop.run(here.database->prepare("SHOW " + name.value, {}));
      if (!known) errors.list.push_back({.position = name.position, .message = describe(known.error())});
    }
  }

  std::expected<void, Away> prepared;
  for_each_kind<ComponentKinds>([&]<class Kind> {
    if (prepared) prepared = Kind::prepare(preparation);
  });
  for_each_route_kind([&]<class Kind> {
    if (prepared) prepared = Kind::prepare(preparation);
  });
  if (!prepared) return unreachable(prepared.error());
  keep_instances(*plan, previous);
  if (plan->names_are_full) {
    return std::unexpected(Refusal{"sluice: 65,535 paths have been served since the start: restart to serve others\n",
                                   exit_configuration});
  }
  if (auto done = prepare_request_log(preparation); !done) return unreachable(done.error());
  if (!errors.list.empty()) {
    std::ranges::sort(errors.list, {}, &config::Diagnostic::position);
    return std::unexpected(Refusal{errors.text(), exit_configuration});
  }
  add_policies(*plan, plan->cores, previous);
  if (!options.compression.codings.empty()) {
    plan->compression = plan->add(std::make_shared<CompressionComponent>(options.compression), previous);
  }
  // A failed query for optional information, such as constraints, has not been reported above.
  for (const auto& [index, database] : away) {
    if (database->missed()) return unreachable({index, *database->missed()});
  }
  for (const auto& policy : options.policies) {
    if (preparation.used_policies.contains(policy.name.value)) {
      const std::uint64_t size = policy.value.of<gateway::limits::BodyLimitOptions>().size;  // 0 for other types
      if (size > server.body_limit) plan->most_body = std::max(plan->most_body, size);
      if (policy.value.dry_run.value) {
        plan->warnings.push_back("the policy \"" + policy.name.value + "\" refuses no request, because of \"dry_run\"");
      }
      continue;
    }
    plan->warnings.push_back("nothing uses the policy \"" + policy.name.value + "\"");
  }
  std::ranges::move(warn_of_guards_beside(options), std::back_inserter(plan->warnings));
  std::ranges::move(warn_of_open_writes(options), std::back_inserter(plan->warnings));
  return plan;
}

}  // namespace sluice::app
