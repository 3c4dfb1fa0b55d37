#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "api/options.h"
#include "api/source.h"
#include "http/router.h"
#include "sql/set/table.h"

// Statements for a method that names a table and its columns in place of SQL. A column's value is the parameter
// sql::shared_parameter(); whether the body has it is presence_parameter().
namespace sluice::api {

struct TableSql {
  std::string sql;
  std::string update_first;  // PUT: replaces the row where it is there; `sql` inserts it where it is not
};

[[nodiscard]] std::string presence_parameter(std::string_view column);

// The table has the columns that `options` names. An error is what the configuration does wrong.
[[nodiscard]] std::expected<TableSql, std::string> make_table_sql(http::Method method, const MethodOptions& options,
                                                                  const http::Pattern& pattern, sql::Dialect dialect,
                                                                  const sql::Table& table);

// The source of a parameter that such a statement has; nothing: it is none of them.
[[nodiscard]] std::optional<Source> table_source(std::string_view parameter, const MethodOptions& options,
                                                 const http::Pattern& pattern);

}  // namespace sluice::api
