#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/task.h"
#include "sql/database.h"

namespace sluice::app {

// The lines of a plan, the answer of an EXPLAIN. `text` has placeholders :name, and `arguments` are their values;
// empty: all are NULL.
[[nodiscard]] core::Task<sql::Result<std::vector<std::string>>> read_plan(sql::Database& database, std::string text,
                                                                          std::vector<sql::Parameter> declared,
                                                                          std::span<const sql::Argument> arguments,
                                                                          sql::QueryOptions options);
// The same for a statement that has been prepared, or generated.
[[nodiscard]] core::Task<sql::Result<std::vector<std::string>>> read_plan(sql::Database& database,
                                                                          sql::Statement statement,
                                                                          std::span<const sql::Argument> arguments,
                                                                          sql::QueryOptions options);

}  // namespace sluice::app
