#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/options.h"
#include "api/source.h"
#include "http/router.h"
#include "sql/set/table.h"

// Makes the statements of a method that configures a table and its columns instead of SQL. Each column's value is the
// parameter sql::shared_parameter(). The parameter presence_parameter() says whether the body has the column.
namespace sluice::api {

// The UPDATE of a PATCH in parts, because SET has only the columns that the body names. Parameters are written :name.
struct PatchSql {
  struct Assignment {
    std::string column;
    std::string sql;        // "name" = :set_name
    bool optional = false;  // left out if the body does not name the column
  };
  std::string head;  // UPDATE films SET, and the version's assignment
  std::vector<Assignment> assignments;
  std::string tail;               // WHERE and RETURNING
  std::string read;               // returns the same columns and changes nothing: for a body that names no column
  std::vector<std::string> json;  // the columns of JSON
  std::string current;            // reads and locks their values, which a merge patch changes; empty: `json` is empty

  // The statement with the assignments whose entry in `chosen` is '1'.
  [[nodiscard]] std::string update(std::string_view chosen) const;
};

struct TableSql {
  std::string sql;
  std::string update_first;         // PUT: replaces the row if it exists; otherwise `sql` inserts it
  std::optional<PatchSql> patch{};  // PATCH; `sql` is the UPDATE of all columns
};

[[nodiscard]] std::string presence_parameter(std::string_view column);

// An SQL expression for the next value of a column that counts or times a row's changes; it differs from the current
// value. Empty if values of the column's type have no next one.
[[nodiscard]] std::string next_version(sql::Dialect dialect, const sql::TableColumn& column);

// `version`: the table's column that each UPDATE sets to next_version(), whatever the body says; empty: none.
// Precondition: the table has this column and those that `options` names. An error says what is wrong in the
// configuration.
[[nodiscard]] std::expected<TableSql, std::string> make_table_sql(http::Method method, const MethodOptions& options,
                                                                  const http::Pattern& pattern, sql::Dialect dialect,
                                                                  const sql::Table& table,
                                                                  std::string_view version = {});

// The source of a parameter of such a statement. Returns nullopt if the statement does not have this parameter.
[[nodiscard]] std::optional<Source> table_source(std::string_view parameter, const MethodOptions& options,
                                                 const http::Pattern& pattern);

}  // namespace sluice::api
