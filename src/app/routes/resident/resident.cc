// [[resident]]
#include "api/resident/resident.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/config/difference.h"
#include "app/config/near_name.h"
#include "app/config/statement.h"
#include "app/explain/answer.h"
#include "app/prepare/preparation.h"
#include "app/routes/resident/tables.h"
#include "app/routes/shapes.h"
#include "app/site.h"
#include "sql/plain_columns.h"
#include "sql/reading.h"

namespace sluice::app {
namespace {

class ResidentRoute final : public Route {
 public:
  ResidentRoute(Plan& plan, const api::resident::ResidentOptions& options,
                std::shared_ptr<const ResidentComponent> table, std::vector<sql::ColumnFacts> facts,
                std::shared_ptr<const std::vector<sql::EnumType>> enums, std::vector<api::openapi::Security> security)
      : Route(plan, shapes_of<ResidentTables>(options)),
        options_(options),
        table_(std::move(table)),
        facts_(std::move(facts)),
        enums_(std::move(enums)),
        security_(std::move(security)) {}

  void build(Site& site) const override {
    const auto add = [&]<class Handler>(const Shape& shape, std::type_identity<Handler>) {
      Site::Builder builder(site, *this, shape);
      builder.add(builder.own(std::make_unique<Handler>(builder.part(*table_))));
    };
    add(shapes().front(), std::type_identity<api::resident::ListHandler>());
    if (has_key()) add(shapes().back(), std::type_identity<api::resident::FindHandler>());
  }
  void explain(AnswerExplainer& into, const Shape&, http::Exchange& exchange) const override {
    if (!into.add_format(exchange.request, {})) return;
    into.add("table", options_.name.value + ", in memory");
    into.add("query", options_.query.value);
  }

  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const ResidentRoute*>(&before);
    return other != nullptr && table_ == other->table_ && config::same(options_.use, other->options_.use);
  }

  void describe(Described& into) const override {
    into.residents.push_back({.pattern = shapes().front().pattern,
                              .key_pattern = has_key() ? std::optional(shapes().back().pattern) : std::nullopt,
                              .plan = table_->plan.get(),
                              .facts = facts_,
                              .enums = *enums_,
                              .security = security_});
  }

 private:
  [[nodiscard]] bool has_key() const { return shapes().size() > 1; }

  const api::resident::ResidentOptions options_;
  const std::shared_ptr<const ResidentComponent> table_;
  const std::vector<sql::ColumnFacts> facts_;  // for [openapi], by column
  const std::shared_ptr<const std::vector<sql::EnumType>> enums_;
  const std::vector<api::openapi::Security> security_;
};

// Has the database describe the statements of a resident table. Errors in them, in its key or in its index are reported
// with their places in the file; then the result is null. Fails only if the database became unreachable.
sql::Result<std::shared_ptr<const api::resident::Plan>> make_plan(Preparation& preparation,
                                                                  const api::resident::ResidentOptions& options,
                                                                  std::size_t index) {
  const sql::DatabaseOptions& database_options = preparation.options().databases[index].value;
  sql::Database& database = *preparation.databases[index].database;
  Loop& loop = preparation.loop;
  std::vector<config::Diagnostic>& errors = preparation.errors;
  using Made = std::shared_ptr<const api::resident::Plan>;
  const auto complain = [&](Position position, std::string what, std::string hint = {}) {
    errors.push_back({.position = position,
                      .message = fmt::format("resident \"{}\": {}", options.name.value, what),
                      .hint = std::move(hint)});
    return Made();
  };

  // Nothing if an error was reported.
  const auto describe = [&](const Located<std::string>& text) -> sql::Result<std::optional<sql::Statement>> {
    auto statement = loop.run(database.prepare(text.value, {}));
    if (statement) {
      const auto reads = loop.run(sql::check_reading(database, database_options, text.value, {}));
      if (!reads) statement = std::unexpected(reads.error());
    }
    if (statement) return std::move(*statement);
    const sql::Error& error = statement.error();
    if (error.failure == sql::Failure::unavailable || error.failure == sql::Failure::lost) {
      return std::unexpected(error);
    }
    errors.push_back(
        config::statement_refused(fmt::format("resident \"{}\"", options.name.value), text, error, preparation.source,
                                  near_name(loop, database, database_options.dialect(), text.value, error)));
    return std::nullopt;
  };
  auto described = describe(options.query);
  if (!described) return std::unexpected(described.error());
  if (!*described) return Made();
  std::optional<sql::Statement>& statement = *described;
  if (!statement->parameters.empty()) {
    return complain(options.query.position,
                    fmt::format("the query has a parameter, :{}", statement->parameters.front().name),
                    "what it loads is the same for all");
  }

  auto plan = std::make_shared<api::resident::Plan>();
  plan->name = options.name.value;
  plan->shape.key = options.key.value;
  plan->shape.csv = options.csv;
  plan->shape.on_demand = options.encode == api::resident::Encode::on_demand;
  plan->shape.memory_limit = options.memory;
  plan->cache_control = options.cache_control ? options.cache_control->value : std::string{};
  plan->stale_after = options.stale_after.value;
  plan->cache = options.cache;
  plan->timeout = options.timeout;
  // Checks one name at a time, so that the error has the position of that name.
  const auto check = [&](api::resident::TableShape shape, Position position) {
    std::string wrong = api::resident::check_shape(shape, statement->columns);
    if (wrong.empty()) return true;
    complain(position, std::move(wrong));
    return false;
  };
  bool good = check({}, options.query.position);
  if (good && !options.key.value.empty()) good = check({.key = options.key.value, .index = {}}, options.key.position);
  for (const auto& name : options.index) {
    good = check({.key = {}, .index = {name.value}}, name.position) && good;
    plan->shape.index.push_back(name.value);
  }
  if (good && options.refresh && !options.refresh->changes.value.empty()) {
    const api::resident::RefreshOptions& refresh = *options.refresh;
    auto changes = describe(refresh.changes);
    if (!changes) return std::unexpected(changes.error());
    if (!*changes) return Made();
    if ((*changes)->parameters.size() != 1 || (*changes)->parameters.front().name != "since") {
      return complain(refresh.changes.position, "\"changes\" has one parameter, :since", "WHERE updated_at >= :since");
    }
    plan->changes = {.statement = std::move(**changes),
                     .shape = {.version = refresh.version.value, .deleted = refresh.deleted.value}};
    std::string wrong = api::resident::check_changes(plan->shape, plan->changes->shape, statement->columns,
                                                     plan->changes->statement.columns);
    if (!wrong.empty()) return complain(refresh.changes.position, std::move(wrong));
  }
  if (!good) return Made();
  plan->statement = std::move(*statement);
  return plan;
}

}  // namespace

std::expected<void, Away> ResidentTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const api::resident::ResidentOptions& options : plan.options.residents) {
    auto security = preparation.security(options.use);
    const std::size_t index = plan.options.index_of_database(options.database.value);
    if (!preparation.databases[index].database) continue;
    auto made = make_plan(preparation, options, index);
    if (!made) return std::unexpected(Away{index, std::move(made.error())});
    if (!*made) continue;
    const auto table = plan.add(std::make_shared<ResidentComponent>(options, std::move(*made), plan.databases[index]),
                                preparation.previous);
    if (plan.options.databases[index].value.role) {
      plan.warnings.push_back(fmt::format(
          "[[resident]] \"{0}\" is loaded by the log-in of [database.{1}] and served to everybody whom \"use\" lets "
          "in: \"role\" "
          "and row-level security do not hold for it. If that is meant, give it a [database.NAME] without \"role\"",
          options.name.value, options.database.value));
    }
    std::vector<sql::ColumnFacts> facts;
    if (plan.options.openapi) {
      facts = preparation.loop.run(sql::column_facts(*preparation.databases[index].database,
                                                     plan.options.databases[index].value.dialect(), options.query.value,
                                                     table->plan->statement.columns));
    }
    if (!options.serve.value) continue;
    plan.routes.push_back(std::make_shared<ResidentRoute>(plan, options, table, std::move(facts),
                                                          preparation.enums_of(index), std::move(security)));
  }
  return {};
}

}  // namespace sluice::app
