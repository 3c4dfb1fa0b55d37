#include "app/prepare.h"

#include <algorithm>
#include <utility>

#include "api/file_endpoint.h"
#include "api/openapi/document.h"
#include "api/table_sql.h"
#include "app/certificates.h"
#include "app/cli.h"
#include "app/config/statement.h"
#include "app/config/values.h"
#include "app/run_task.h"
#include "base/log.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/sleep.h"
#include "core/usable_cores.h"
#include "sql/open.h"
#include "sql/reading.h"

namespace sluice::app {
namespace {

template <class T>
T run(core::Reactor& reactor, core::Mailbox& mailbox, core::Task<T> task) {
  return run_task(reactor, mailbox, std::move(task));
}

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

std::string describe(const sql::Error& error) {
  return error.sqlstate.empty() ? error.message : error.message + " (" + error.sqlstate + ")";
}

bool is_used(const Options& options, const std::string& policy) {
  const auto uses = [&](const auto& route) {
    return std::ranges::find(route.use, policy, &Located<std::string>::value) != route.use.end();
  };
  return std::ranges::any_of(options.endpoints, uses) || std::ranges::any_of(options.files, uses) ||
         std::ranges::any_of(options.websockets, uses) || (options.openapi && uses(*options.openapi));
}

// What the file says of the values of each method, against what the database has said of them.
void check_values(const api::EndpointOptions& options, const Plan::Endpoint& endpoint, sql::Dialect dialect,
                  const config::Source& source, std::vector<config::Diagnostic>& errors) {
  std::vector<config::BoundValue> values;
  const auto add = [&](std::span<const api::Source> sources, const sql::Statement* statement) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const bool described = statement != nullptr && i < statement->described_types.size();
      values.push_back({.source = &sources[i], .oid = described ? statement->described_types[i] : 0});
    }
  };
  const auto check = [&](http::Method method) {
    const sql::Table* table = nullptr;
    const api::MethodOptions* writing = nullptr;
    for (const auto& [its_method, its_options] : options.writing_methods()) {
      if (its_method == method) writing = its_options;
    }
    for (const auto& [its_method, its_table] : endpoint.tables) {
      if (its_method == method && dialect == sql::Dialect::postgres) table = &its_table;
    }
    config::check_values(options, writing, table, values, source, errors);
    values.clear();
  };
  if (endpoint.get) {
    add(endpoint.get->sources, &endpoint.get->statement);
    check(http::Method::get);
  }
  for (const auto& write : endpoint.writes) {
    for (const auto& step : write->before) add(step.sources, &step.statement);
    if (write->update_first) add(write->update_first->sources, &write->update_first->statement);
    add(write->main.sources, &write->main.statement);
    check(write->method);
  }
  for (const auto& set : endpoint.sets) {
    add(set->staged, nullptr);
    add(set->shared, nullptr);
    check(set->method);
  }
}

// Describes the endpoints.
void publish(Plan& plan) {
  std::vector<api::openapi::Resource> resources;
  for (const Plan::Endpoint& endpoint : plan.endpoints) {
    const api::EndpointOptions& options = plan.options.endpoints[endpoint.index];
    api::openapi::Resource resource{.options = &options,
                                    .pattern = &endpoint.pattern,
                                    .get = endpoint.get.get(),
                                    .writes = endpoint.writes,
                                    .sets = endpoint.sets,
                                    .tables = endpoint.tables,
                                    .security = {}};
    for (const auto& name : options.use) {
      const auto& policy = plan.options.policies[*plan.options.find_policy(name.value)];
      if (policy.value.type.value != gateway::PolicyType::jwt) continue;
      resource.security.push_back({.policy = policy.name.value, .optional = policy.value.optional});
    }
    resources.push_back(std::move(resource));
  }
  auto document = api::openapi::make_document(*plan.options.openapi, resources);
  for (std::string& warning : document.warnings) plan.warnings.push_back(std::move(warning));
  plan.openapi = std::make_shared<const api::openapi::Published>(std::move(document.text));
}

// Tells the method's files what their stores take. What is wrong with them, or nothing.
std::string settle_uploads(const Options& options, api::WritePlan& plan) {
  if (!plan.uploads.fault.empty()) return plan.uploads.fault;
  if (!plan.uploads.empty() && plan.method == http::Method::delete_) return "DELETE takes no files";
  for (api::UploadPlan::File& file : plan.uploads.files) {
    const auto store = options.find_store(file.store);
    if (!store) return "there is no [store." + file.store + "]";
    for (const auto& type : options.stores[*store].value.types) file.types.push_back(type.value);
  }
  return {};
}

http::Pattern files_pattern(const std::string& path) {
  return *http::Pattern::parse(path + (path.ends_with('/') ? "" : "/") + "{file...}");
}

}  // namespace

bool Plan::writes_to(std::size_t database) const {
  return std::ranges::any_of(
      endpoints, [&](const Endpoint& endpoint) { return endpoint.database == database && (!endpoint.writes.empty() || !endpoint.sets.empty()); });
}

std::expected<std::shared_ptr<const Plan>, Refusal> prepare(const config::Config& config, bool patient) {
  const auto plan = std::make_shared<Plan>();
  plan->options = config.options;
  plan->routes.emplace_back();

  const std::unique_ptr<core::Reactor> reactor = core::make_epoll_reactor();
  core::Mailbox mailbox(*reactor);
  core::BlockingPool threads(1, 16);
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
    const bool writes = std::ranges::any_of(plan->options.endpoints, [&](const api::EndpointOptions& endpoint) {
      return endpoint.database.value == database.name.value && !endpoint.writing_methods().empty();
    });
    auto opened_shared = writes ? sql::open_shared(database.value) : nullptr;
    shared.push_back(opened_shared ? std::move(*opened_shared) : nullptr);
    auto opened = !opened_shared ? std::unexpected(opened_shared.error())
                                 : sql::open_database(database.value, *reactor, mailbox, threads, shared.back().get());
    if (!opened) {
      errors.list.push_back({.position = database.value.url.position, .message = describe(opened.error())});
      databases.emplace_back();
      continue;
    }
    databases.push_back(std::move(*opened));
    const Duration patience = patient ? database.value.start_timeout.value : 0s;
    const auto reached = run(*reactor, mailbox, reach(*reactor, *databases.back(), database.name.value, patience));
    if (!reached) return unreachable(database.value, reached.error());
  }

  std::vector<std::uint32_t> next_ids(databases.size());
  for (const api::EndpointOptions& options : plan->options.endpoints) {
    const auto named = std::ranges::find(plan->options.databases, options.database.value,
                                         [](const auto& one) -> const std::string& { return one.name.value; });
    const auto index = static_cast<std::size_t>(named - plan->options.databases.begin());
    if (!databases[index]) continue;  // complained about above
    sql::Database& database = *databases[index];
    auto pattern = http::Pattern::parse(options.path.value);
    if (!pattern) {
      errors.list.push_back({.position = options.path.position, .message = pattern.error()});
      continue;
    }
    const auto declared = api::declared_parameters(options, *pattern);
    const auto role = api::role_plan(named->value);
    const auto position = static_cast<std::size_t>(&options - plan->options.endpoints.data());
    Plan::Endpoint endpoint{
        .pattern = *pattern, .index = position, .database = index, .get = nullptr, .writes = {}, .sets = {},
        .tables = {}};
    std::vector<std::string> used;  // names of parameters
    std::optional<sql::Error> away;
    const auto take = [&](const Located<std::string>& text,
                          sql::Result<sql::Statement> statement) -> std::optional<sql::Statement> {
      if (statement) {
        for (const sql::Parameter& parameter : statement->parameters) used.push_back(parameter.name);
        return std::move(*statement);
      }
      const sql::Error& error = statement.error();
      if (error.failure == sql::Failure::unavailable || error.failure == sql::Failure::lost) {
        away = error;
      } else {
        errors.list.push_back(config::statement_refused(options, text, error, config.source));
      }
      return std::nullopt;
    };

    // Of the endpoint, and of a method; nothing where it was complained about.
    const auto guards_of = [&](const api::MethodOptions* method,
                               bool in_transaction) -> std::optional<std::shared_ptr<const api::Guards>> {
      auto guards = std::make_shared<api::Guards>();
      for (const auto& one : options.require.items) guards->add(one, *pattern);
      if (method != nullptr) {
        for (const auto& one : method->require.items) guards->add(one, *pattern);
      }
      if (guards->empty()) return nullptr;
      for (std::size_t i = 0; i < guards->queries().size(); ++i) {
        const auto& query = guards->queries()[i];
        const std::string text = api::exists_statement(query.written->sql);
        auto prepared = run(*reactor, mailbox,
                            in_transaction ? database.prepare_writing(text, next_ids[index]++, declared)
                                           : database.prepare(text, next_ids[index]++, declared));
        if (!prepared && prepared.error().position > api::exists_statement_offset) {
          const std::string_view before = std::string_view(query.options->that.value).substr(0, query.written->offset);
          prepared.error().position += config::count_characters(before) - api::exists_statement_offset;
        }
        auto statement = take(query.options->that, std::move(prepared));
        if (!statement) return std::nullopt;
        guards->prepared(i, std::move(*statement), options, *pattern);
      }
      return guards;
    };

    bool whole = true;
    if (!options.get.value.empty()) {
      auto prepared = run(*reactor, mailbox, database.prepare(options.get.value, next_ids[index]++, declared));
      if (prepared) {
        const auto reads =
            run(*reactor, mailbox, sql::check_reading(database, named->value, options.get.value, declared));
        if (!reads) prepared = std::unexpected(reads.error());
      }
      auto statement = take(options.get, std::move(prepared));
      if (statement && statement->columns.empty()) {
        errors.list.push_back({.position = options.get.position,
                               .message = "endpoint \"" + options.path.value + "\": its statement returns no columns"});
        statement.reset();
      }
      if (statement && options.returns == api::Returns::file) {
        if (const std::string wrong = api::check_file_columns(statement->columns); !wrong.empty()) {
          errors.list.push_back(
              {.position = options.get.position, .message = "endpoint \"" + options.path.value + "\": " + wrong});
        }
      }
      whole = statement.has_value();
      if (statement) {
        auto made = std::make_shared<api::EndpointPlan>(options, *pattern, std::move(*statement));
        made->role = role;
        const auto upload = std::ranges::find(made->sources, api::From::upload, &api::Source::from);
        if (upload != made->sources.end()) {
          errors.list.push_back(
              {.position = options.get.position,
               .message = "endpoint \"" + options.path.value + "\": GET takes no file for :" + upload->name});
        }
        const auto guards = guards_of(nullptr, false);
        whole &= guards.has_value();
        if (guards) made->guards = *guards;
        endpoint.get = std::move(made);
      }
    }
    const auto dialect = named->value.is_sqlite() ? sql::Dialect::sqlite : sql::Dialect::postgres;
    for (const auto& [method, writing] : options.writing_methods()) {
      std::vector<Located<std::string>> texts = writing->before;
      bool updates_first = false;
      if (!writing->table.value.empty()) {
        auto table = run(*reactor, mailbox,
                         sql::describe_table(database, dialect, writing->table.value, next_ids[index]++));
        if (!table) {
          (void)take(writing->table, std::unexpected(table.error()));
          whole = false;
          continue;
        }
        if (!config::check_columns(options, *writing, *table, errors.list)) {
          whole = false;
          continue;
        }
        endpoint.tables.emplace_back(method, *table);
        if (!writing->existing.value.empty() || writing->set.value) {
          auto set = api::set_options(method, *writing, *pattern);
          set.first_id = std::exchange(next_ids[index], next_ids[index] + sql::set_statements);
          auto prepared = run(*reactor, mailbox, sql::prepare_set(database, dialect, *table, std::move(set), declared));
          if (!prepared) {
            const auto& text = writing->existing.value.empty() ? writing->table : writing->existing;
            (void)take(text, std::unexpected(prepared.error()));
            whole = false;
            continue;
          }
          for (const sql::Parameter& parameter : prepared->parameters) used.push_back(parameter.name);
          for (const auto& column : writing->columns) used.push_back(api::column_source(column, *pattern).key);
          auto made_set =
              std::make_shared<api::SetWritePlan>(method, options, *writing, *pattern, std::move(*prepared));
          made_set->role = role;
          const auto guards = guards_of(writing, false);
          whole &= guards.has_value();
          if (guards) made_set->guards = *guards;
          endpoint.sets.push_back(std::move(made_set));
          continue;
        }
        auto made = api::make_table_sql(method, *writing, *pattern, dialect, *table);
        if (!made) {
          errors.list.push_back({.position = writing->table.position,
                                 .message = "endpoint " + options.path.value + ": " + made.error()});
          whole = false;
          continue;
        }
        for (const auto& column : writing->columns) used.push_back(api::column_source(column, *pattern).key);
        updates_first = !made->update_first.empty();
        if (updates_first) texts.emplace_back(std::move(made->update_first), writing->table.position);
        texts.emplace_back(std::move(made->sql), writing->table.position);
      } else {
        texts.push_back(writing->sql);
      }
      std::vector<sql::Statement> statements;
      for (const auto& text : texts) {
        auto prepared = run(*reactor, mailbox, database.prepare_writing(text.value, next_ids[index]++, declared));
        // Nobody has written the text of a table's statement, so there is no place in it to tell.
        if (!prepared && !writing->table.value.empty()) prepared.error().position = 0;
        if (auto statement = take(text, std::move(prepared))) statements.push_back(std::move(*statement));
      }
      whole &= statements.size() == texts.size();
      if (statements.size() != texts.size()) continue;
      if (!writing->location.value.empty()) {
        const auto location = api::LocationPattern::parse(writing->location.value, statements.back().columns);
        if (!location) {
          errors.list.push_back({.position = writing->location.position,
                                 .message = "endpoint " + options.path.value + ": " + location.error()});
          continue;
        }
      }
      auto made = std::make_shared<api::WritePlan>(method, options, *writing, *pattern, std::move(statements),
                                                   updates_first);
      made->role = role;
      if (const std::string wrong = settle_uploads(plan->options, *made); !wrong.empty()) {
        errors.list.push_back({.position = writing->position.line != 0 ? writing->position : options.position,
                               .message = "endpoint \"" + options.path.value +
                                          "\": " + std::string(http::name_of(method)) + ": " + wrong});
      }
      // Those of a method that takes files are asked before, outside of its transaction.
      const auto guards = guards_of(writing, made->uploads.empty());
      whole &= guards.has_value();
      if (guards) made->guards = *guards;
      endpoint.writes.push_back(std::move(made));
    }
    if (away) return unreachable(named->value, *away);
    check_values(options, endpoint, dialect, config.source, errors.list);
    if (whole) config::check_parameters(options, {used.begin(), used.end()}, config.source, errors.list);
    plan->routes.push_back(options.path.value);
    plan->endpoints.push_back(std::move(endpoint));
  }
  for (const auto& store : plan->options.stores) {
    const files::StoreOptions& options = store.value;
    if (options.used.value.empty()) continue;
    const auto named = std::ranges::find(plan->options.databases, options.database.value,
                                         [](const auto& one) -> const std::string& { return one.name.value; });
    const auto index = static_cast<std::size_t>(named - plan->options.databases.begin());
    if (!databases[index]) continue;
    auto prepared = run(*reactor, mailbox, databases[index]->prepare(options.used.value, next_ids[index]++, {}));
    if (prepared) {
      const auto reads =
          run(*reactor, mailbox, sql::check_reading(*databases[index], named->value, options.used.value, {}));
      if (!reads) prepared = std::unexpected(reads.error());
    }
    if (prepared && prepared->columns.size() == 1 && prepared->parameters.empty()) continue;
    const bool away = !prepared && (prepared.error().failure == sql::Failure::unavailable ||
                                    prepared.error().failure == sql::Failure::lost);
    if (away) return unreachable(named->value, prepared.error());
    errors.list.push_back({.position = options.used.position,
                           .message = "store \"" + store.name.value + "\": " +
                                      (prepared ? "\"used\" returns one column, the hashes, and has no parameters"
                                                : describe(prepared.error()))});
  }
  if (!errors.list.empty()) {
    std::ranges::sort(errors.list, {}, &config::Diagnostic::position);
    return std::unexpected(Refusal{errors.text(), exit_configuration});
  }

  for (std::size_t i = 0; i < plan->options.files.size(); ++i) {
    plan->files.push_back({files_pattern(plan->options.files[i].path.value), i});
    plan->routes.push_back(plan->options.files[i].path.value);
  }
  for (std::size_t i = 0; i < plan->options.websockets.size(); ++i) {
    const std::string& path = plan->options.websockets[i].path.value;
    plan->websockets.push_back({*http::Pattern::parse(path), i});
    plan->routes.push_back(path);
  }
  if (plan->options.openapi) {
    publish(*plan);
    plan->routes.push_back(plan->options.openapi->path.value);
  }
  return plan;
}

}  // namespace sluice::app
