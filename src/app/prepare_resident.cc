#include "app/prepare_resident.h"

#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "app/config/statement.h"
#include "app/near_name.h"
#include "sql/reading.h"

namespace sluice::app {

sql::Result<std::shared_ptr<const api::resident::Plan>> prepare_resident(
    Loop& loop, const api::resident::ResidentOptions& options, const sql::DatabaseOptions& database_options,
    sql::Database& database, const config::Source& source, std::vector<config::Diagnostic>& errors) {
  using Made = std::shared_ptr<const api::resident::Plan>;
  const auto complain = [&](Position position, std::string what, std::string hint = {}) {
    errors.push_back({.position = position,
                      .message = fmt::format("resident \"{}\": {}", options.name.value, what),
                      .hint = std::move(hint)});
    return Made();
  };

  // Nothing: it is complained about.
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
    errors.push_back(config::statement_refused(
        fmt::format("resident \"{}\"", options.name.value), text, error, source,
        near_name(loop, database, database_options.is_sqlite() ? sql::Dialect::sqlite : sql::Dialect::postgres,
                  text.value, error)));
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
  // One after the other, so that the complaint stands where the name does.
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

}  // namespace sluice::app
