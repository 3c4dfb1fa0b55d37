#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/options.h"
#include "api/source.h"
#include "app/config/source.h"
#include "sql/set/table.h"

// What the configuration says of the values of statements, against what the database has said of them.
namespace sluice::app::config {

// A value that one method of an endpoint binds.
struct BoundValue {
  const api::Source* source = nullptr;
  std::uint32_t oid = 0;   // what PostgreSQL takes it for; 0: nobody has said
  std::string type = {};   // SQLite: the declared type of the column that it meets; empty: not known
  bool row_id = false;     // SQLite: that is an INTEGER PRIMARY KEY
  bool of_column = false;  // of `columns`, and not of a statement's parameter of the same name
};

// A declared type that the database's own does not take, a default that does not fit, and two parameters from one
// query parameter. `method`: null is GET; `table`: of a method that names one. What PostgreSQL can
// read is never complained about, however odd. SQLite compares and stores anything as it is: a default is wrong where a
// request's value would be refused.
void check_values(const api::EndpointOptions& endpoint, const api::MethodOptions* method, const sql::Table* table,
                  sql::Dialect dialect, std::span<const BoundValue> values, const Source& source,
                  std::vector<Diagnostic>& errors);

// Columns that the table does not have, or that the method would write and nobody may. False: there are such.
[[nodiscard]] bool check_columns(const api::EndpointOptions& endpoint, http::Method method,
                                 const api::MethodOptions& options, const sql::Table& table,
                                 std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
