#include "app/prepare/statement_errors.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "app/config/near_name.h"
#include "app/config/statement.h"
#include "app/config/values.h"
#include "app/prepare/loop.h"
#include "app/prepare/opened_database.h"
#include "sql/reading.h"
#include "sql/set/table.h"

namespace sluice::app {
namespace {

class Statements {
 public:
  Statements(Loop& loop, sql::Database& database, const sql::DatabaseOptions& options, const config::Source& source,
             std::vector<config::Diagnostic>& errors)
      : loop_(loop), database_(database), options_(options), source_(source), errors_(errors) {}

  void add(const api::EndpointOptions& endpoint) {
    const std::string whose = "endpoint " + endpoint.path.value;
    for (const auto* statement : config::statements_of(endpoint)) check(whose, *statement, statement == &endpoint.get);
    for (const auto& [method, writing] : endpoint.writing_methods()) {
      if (writing->table.value.empty()) continue;
      const auto table = loop_.run(sql::describe_table(database_, dialect_, writing->table.value));
      if (table) {
        (void)config::check_columns(endpoint, method, *writing, *table, errors_);
      } else {
        refused(whose, writing->table, table.error());
      }
    }
  }
  void add(const api::resident::ResidentOptions& resident) {
    check(fmt::format("resident \"{}\"", resident.name.value), resident.query, true);
  }

 private:
  void check(std::string_view whose, const Located<std::string>& statement, bool reads) {
    const auto prepared =
        loop_.run(reads ? database_.prepare(statement.value, {}) : database_.prepare_writing(statement.value, {}));
    if (!prepared) return refused(whose, statement, prepared.error());
    if (!reads) return;
    const auto read = loop_.run(sql::check_reading(database_, options_, statement.value, {}));
    if (!read) refused(whose, statement, read.error());
  }

  void refused(std::string_view whose, const Located<std::string>& statement, const sql::Error& error) {
    // Type errors in PostgreSQL may follow from other errors, because they depend on the declared types.
    const bool follows = !error.sqlstate.empty() && error.sqlstate != "42601" && error.sqlstate != "42703" &&
                         error.sqlstate != "42P01" && dialect_ == sql::Dialect::postgres;
    if (error.failure != sql::Failure::statement || follows) return;
    errors_.push_back(config::statement_refused(whose, statement, error, source_,
                                                near_name(loop_, database_, dialect_, statement.value, error)));
  }

  Loop& loop_;
  sql::Database& database_;
  const sql::DatabaseOptions& options_;
  const config::Source& source_;
  std::vector<config::Diagnostic>& errors_;
  const sql::Dialect dialect_ = options_.dialect();
};

}  // namespace

void add_statement_errors(const config::Config& config, std::vector<config::Diagnostic>& errors) {
  Loop loop;
  for (const auto& database : config.options.databases) {
    const Position position = database.value.url.position;
    const bool wrong = std::ranges::any_of(errors, [&](const auto& one) {
      return one.position.file == position.file && one.position.line == position.line;
    });
    if (wrong || database.value.url.value.empty()) continue;
    auto opened = open_database(loop, config.options, database);
    const auto reached = opened ? loop.run(opened->database->ping(loop.reactor->now() + 10s))
                                : sql::Result<void>(std::unexpected(opened.error()));
    if (!reached) {
      errors.push_back({position, describe(reached.error()) + "; the statements have not been checked"});
      continue;
    }
    Statements statements(loop, *opened->database, database.value, config.source, errors);
    for (const auto& endpoint : config.options.endpoints) {
      if (endpoint.database.value == database.name.value) statements.add(endpoint);
    }
    for (const auto& resident : config.options.residents) {
      if (resident.database.value == database.name.value) statements.add(resident);
    }
  }
}

}  // namespace sluice::app
