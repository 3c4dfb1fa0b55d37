#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/options.h"
#include "api/source.h"
#include "app/config/source.h"
#include "sql/set/table.h"

// Compares the configuration's options for the values of statements with the types that the database has reported.
namespace sluice::app::config {

// A value that a method of an endpoint binds. Its column in SQLite is the one that it is compared with or stored in.
struct BoundValue {
  const api::Source* source = nullptr;
  std::uint32_t oid = 0;   // the type in PostgreSQL; 0: not known
  std::string type = {};   // SQLite: the declared type of its column; empty: not known
  bool row_id = false;     // SQLite: the column is an INTEGER PRIMARY KEY
  bool of_column = false;  // the value is one of `columns`, not a statement's parameter of the same name
};

// Reports declared types that do not fit the database's type, defaults that do not fit, and two parameters that come
// from one query parameter. `method`: null for GET; `table`: the table of a method with `table`. Any text that
// PostgreSQL can read is accepted. SQLite compares and stores any value as it is, so a default is wrong if the same
// value in a request would be refused.
void check_values(const api::EndpointOptions& endpoint, const api::MethodOptions* method, const sql::Table* table,
                  sql::Dialect dialect, std::span<const BoundValue> values, const Source& source,
                  std::vector<Diagnostic>& errors);

// Reports columns that the table does not have, and generated columns that the method would write. Returns false if
// there are any.
[[nodiscard]] bool check_columns(const api::EndpointOptions& endpoint, http::Method method,
                                 const api::MethodOptions& options, const sql::Table& table,
                                 std::vector<Diagnostic>& errors);

}  // namespace sluice::app::config
