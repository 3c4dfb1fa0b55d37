#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "api/options.h"
#include "api/source.h"
#include "http/router.h"
#include "sql/set/table.h"

// Makes the statements of a method that configures a table and its columns instead of SQL. Each column's value is the
// parameter sql::shared_parameter(). The parameter presence_parameter() says whether the body has the column.
namespace sluice::api {

struct TableSql {
  std::string sql;
  std::string update_first;  // PUT: replaces the row if it exists; otherwise `sql` inserts it
};

[[nodiscard]] std::string presence_parameter(std::string_view column);

// Precondition: the table has the columns that `options` names. An error says what is wrong in the configuration.
[[nodiscard]] std::expected<TableSql, std::string> make_table_sql(http::Method method, const MethodOptions& options,
                                                                  const http::Pattern& pattern, sql::Dialect dialect,
                                                                  const sql::Table& table);

// The source of a parameter of such a statement. Returns nullopt if the statement does not have this parameter.
[[nodiscard]] std::optional<Source> table_source(std::string_view parameter, const MethodOptions& options,
                                                 const http::Pattern& pattern);

}  // namespace sluice::api
