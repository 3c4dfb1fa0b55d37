#include "app/prepare_resident.h"

#include <utility>

#include <fmt/format.h>

#include "sql/reading.h"

namespace sluice::app {

sql::Result<std::shared_ptr<const api::resident::Plan>> prepare_resident(
    Loop& loop, const api::resident::ResidentOptions& options, const sql::DatabaseOptions& database_options,
    sql::Database& database, std::uint32_t statement_id, const config::Source& source,
    std::vector<config::Diagnostic>& errors) {
  using Made = std::shared_ptr<const api::resident::Plan>;
  const auto complain = [&](Position position, std::string what, std::string hint = {}) {
    errors.push_back({.position = position,
                      .message = fmt::format("resident \"{}\": {}", options.name.value, what),
                      .hint = std::move(hint)});
    return Made();
  };

  auto statement = loop.run(database.prepare(options.query.value, statement_id, {}));
  if (statement) {
    const auto reads = loop.run(sql::check_reading(database, database_options, options.query.value, {}));
    if (!reads) statement = std::unexpected(reads.error());
  }
  if (!statement) {
    const sql::Error& error = statement.error();
    if (error.failure == sql::Failure::unavailable || error.failure == sql::Failure::lost) {
      return std::unexpected(error);
    }
    return complain(source.locate(options.query.position, error.position), error.message,
                    error.sqlstate.empty() ? "" : fmt::format("SQLSTATE {}", error.sqlstate));
  }
  if (!statement->parameters.empty()) {
    return complain(options.query.position,
                    fmt::format("the query has a parameter, :{}", statement->parameters.front().name),
                    "what it loads is the same for all");
  }

  auto plan = std::make_shared<api::resident::Plan>();
  plan->name = options.name.value;
  plan->shape.key = options.key.value;
  plan->shape.csv = options.csv;
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
  if (!good) return Made();
  plan->statement = std::move(*statement);
  return plan;
}

}  // namespace sluice::app
