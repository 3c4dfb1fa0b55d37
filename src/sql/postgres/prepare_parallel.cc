#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "sql/postgres/database.h"
#include "sql/postgres/parallel_plan.h"
#include "sql/postgres/transaction.h"
#include "sql/postgres/types.h"

namespace sluice::sql::postgres {
namespace {

constexpr Duration preparation_timeout = 30s;
constexpr std::uint32_t tid_oid = 27;

Error refused(std::string why) { return {Failure::statement, {}, "parallel: " + std::move(why), 0}; }

// One of Sluice's own statements, with one column or none.
Statement own(std::string text, std::string_view column = {}, std::uint32_t type = 0) {
  Statement statement;
  statement.text = std::move(text);
  if (type != 0) statement.columns.push_back({std::string(column), builtin_type(type), type});
  return statement;
}

// SQL's PREPARE takes names of types; Parse takes OIDs.
core::Task<Result<std::string>> names_of_types(Pool& pool, const Statement& statement) {
  std::string numbers;
  for (std::size_t i = 0; i < statement.parameters.size(); ++i) {
    numbers +=
        (i == 0 ? "" : ",") + std::to_string(i < statement.parameter_types.size() ? statement.parameter_types[i] : 0);
  }
  const Statement ask = own(
      "SELECT string_agg(CASE WHEN type = 0 THEN 'unknown' ELSE pg_catalog.format_type(type, NULL) END, ',' ORDER BY "
      "place) FROM unnest('{" +
          numbers + "}'::oid[]) WITH ORDINALITY AS types (type, place)",
      "string_agg", 25);
  auto asking = Transaction::reading(pool, {.deadline = pool.reactor().now() + preparation_timeout, .settings = {}});
  auto names = co_await asking.finish(ask, {}, SIZE_MAX);
  if (!names) co_return std::unexpected(std::move(names.error()));
  if (names->rows.rows != 1) co_return std::unexpected(refused("the server does not know the parameters' types"));
  co_return std::string(names->rows.row(0)[0].view());
}

// Returns EXPLAIN's output for a statement that is prepared as `name`: its generic plan, with all other ways to scan a
// table disabled. `role`: the role that runs EXPLAIN; empty: the login.
core::Task<Result<std::string>> explain(Pool& pool, std::string name, std::string define, std::string values,
                                        std::string role) {
  std::vector<Setting> settings = {{"plan_cache_mode", "force_generic_plan"},
                                   {"max_parallel_workers_per_gather", "0"},
                                   {"enable_seqscan", "off"},
                                   {"enable_indexscan", "off"},
                                   {"enable_indexonlyscan", "off"},
                                   {"enable_bitmapscan", "off"},
                                   // Settings that policies may read, even during planning.
                                   {"request.jwt.claims", "{}"},
                                   {"request.method", "GET"},
                                   {"request.path", "/"}};
  if (!role.empty()) settings.push_back({"role", std::move(role)});
  const Statement prepare = own("PREPARE " + name + define);
  const Statement ask =
      own("EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) EXECUTE " + name + "(" + values + ")", "QUERY PLAN", 114);
  const Statement forget = own("DEALLOCATE " + name);
  auto transaction =
      Transaction::reading(pool, {.deadline = pool.reactor().now() + preparation_timeout, .settings = settings});
  auto prepared = co_await transaction.execute(prepare, {});
  if (!prepared) co_return std::unexpected(std::move(prepared.error()));
  auto explained = co_await transaction.execute(ask, {});
  if (!explained) co_return std::unexpected(std::move(explained.error()));
  std::string plan;
  if (explained->rows.rows == 1) plan = explained->rows.row(0)[0].view();
  auto done = co_await transaction.finish(forget, {}, SIZE_MAX);
  if (!done) co_return std::unexpected(std::move(done.error()));
  co_return plan;
}

}  // namespace

core::Task<Result<Statement>> Database::prepare_parallel(std::string_view text, std::span<const Parameter> declared,
                                                         const ParallelReading& reading) {
  const std::string source(text);
  auto prepared = co_await prepare(source, declared);
  if (!prepared) co_return std::unexpected(std::move(prepared.error()));
  Statement statement = std::move(*prepared);
  const auto parsed = parse_parameters(source, PlaceholderStyle::dollar);
  if (!parsed) co_return std::unexpected(parsed.error());
  const auto range = find_range(*parsed);
  if (!range) co_return std::unexpected(refused(range.error()));
  for (const std::size_t index : {range->from, range->to}) {
    if (statement.described_types.at(index) != tid_oid) {
      co_return std::unexpected(refused(":" + statement.parameters[index].name + " is compared with what is no ctid"));
    }
  }

  // A generic plan is only available for a statement that was prepared with SQL. The name is new each time, because a
  // refused statement may keep its name.
  const std::string name = "sluice_parallel_" + std::to_string(++explained_);
  const auto types = co_await names_of_types(pool_, statement);
  if (!types) co_return std::unexpected(types.error());
  std::string values;
  for (std::size_t i = 0; i < statement.parameters.size(); ++i) values += i == 0 ? "NULL" : ", NULL";
  const std::string define = "(" + *types + ") AS " + statement.text;
  auto plan = co_await explain(pool_, name, define, values, {});
  if (!plan && plan.error().sqlstate == "42501") {
    // The login may have no rights of its own, only those of the roles that it takes for requests. Any role that may
    // read the table will do: row policies add conditions on each row, whichever role they are for.
    const Statement roles =
        own("SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname <> current_user AND NOT rolsuper AND "
            "pg_catalog.pg_has_role(current_user, oid, 'MEMBER') ORDER BY 1 LIMIT 16",
            "rolname", 25);
    auto asking =
        Transaction::reading(pool_, {.deadline = pool_.reactor().now() + preparation_timeout, .settings = {}});
    auto known = co_await asking.finish(roles, {}, SIZE_MAX);
    for (std::size_t i = 0; known && i < known->rows.rows && !plan && plan.error().sqlstate == "42501"; ++i) {
      const std::string role(known->rows.row(i)[0].view());
      plan = co_await explain(pool_, name + "_" + std::to_string(i), define, values, role);
    }
  }
  if (!plan) {
    Error error = std::move(plan.error());
    if (error.sqlstate == "42501") error.message += ": neither the login nor a role that it may take can read it";
    error.position = 0;
    co_return std::unexpected(std::move(error));
  }
  auto table = check_plan(*plan, *range);
  if (!table) co_return std::unexpected(refused(std::move(table.error())));
  const Statement state = own("SELECT pg_catalog.pg_is_in_recovery()", "pg_is_in_recovery", 16);
  auto looking = Transaction::reading(pool_, {.deadline = pool_.reactor().now() + preparation_timeout, .settings = {}});
  const auto standby = co_await looking.finish(state, {}, SIZE_MAX);
  if (!standby) co_return std::unexpected(standby.error());
  if (standby->rows.rows == 1 && standby->rows.row(0)[0].view() == "t") {
    log_error("parallel: as long as the server is a standby, table " + table->schema + "." + table->name +
              " is read on one connection");
  }
  statement.parallel = Parallel{.reading = reading,
                                .from = range->from,
                                .to = range->to,
                                .schema = std::move(table->schema),
                                .table = std::move(table->name)};
  co_return std::move(statement);
}

}  // namespace sluice::sql::postgres
