#include "app/config/near_name.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "app/config/text.h"
#include "base/ascii.h"

namespace sluice::app {
namespace {

struct Missing {
  std::string name;
  bool is_table = false;
};

std::optional<Missing> missing_in(const sql::Error& error) {
  struct Words {
    std::string_view before, sqlstate;
    bool is_table;
  };
  constexpr std::array words = {
      Words{"no such table: ", "", true},   Words{"there is no table ", "", true},    Words{"relation ", "42P01", true},
      Words{"no such column: ", "", false}, Words{"has no column named ", "", false}, Words{"column ", "42703", false},
  };
  for (const auto& [before, sqlstate, is_table] : words) {
    const auto found = error.message.find(before);
    if (found == std::string::npos || (!sqlstate.empty() && error.sqlstate != sqlstate)) continue;
    std::string_view name = std::string_view(error.message).substr(found + before.size());
    const bool quoted = name.starts_with('"');
    if (quoted) name.remove_prefix(1);
    name = name.substr(0, name.find(quoted ? '"' : ' '));
    name.remove_prefix(name.rfind('.') + 1);  // npos + 1 is 0
    return Missing{std::string(name), is_table};
  }
  return std::nullopt;
}

using Names = std::vector<std::pair<std::string, std::string>>;  // a table, and one of its columns

core::Task<sql::Result<void>> read_names(sql::Database& database, sql::Dialect dialect, Names& into) {
  constexpr std::string_view of_sqlite =
      "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_xinfo(m.name) c WHERE m.type IN ('table', 'view')";
  constexpr std::string_view of_postgres =
      "SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
      " WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped"
      " AND pg_table_is_visible(c.oid) AND c.relnamespace <> 'pg_catalog'::regnamespace";
  const auto statement = co_await database.prepare(dialect == sql::Dialect::sqlite ? of_sqlite : of_postgres, {});
  if (!statement) co_return std::unexpected(statement.error());
  const auto cursor = co_await database.query(*statement, {}, {});
  if (!cursor) co_return std::unexpected(cursor.error());
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    for (std::size_t i = 0; i < block->rows; ++i) {
      into.emplace_back(block->row(i)[0].view(), block->row(i)[1].view());
    }
  }
  co_return sql::Result<void>{};
}

}  // namespace

std::string near_name(Loop& loop, sql::Database& database, sql::Dialect dialect, std::string_view statement,
                      const sql::Error& error) {
  const auto missing = missing_in(error);
  if (!missing || error.message.contains("Perhaps you meant")) return {};  // PostgreSQL's message has a hint
  Names names;
  if (!loop.run(read_names(database, dialect, names))) return {};
  const std::string text = to_lower(statement);
  std::vector<std::string_view> candidates;
  for (const auto& [table, column] : names) {
    if (missing->is_table) {
      candidates.push_back(table);
    } else if (text.contains(to_lower(table))) {
      candidates.push_back(column);
    }
  }
  return config::did_you_mean(missing->name, candidates);
}

}  // namespace sluice::app
