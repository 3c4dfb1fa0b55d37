#pragma once

#include <span>
#include <string_view>

#include "core/task.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::sql {

// Checks that a statement, which `database` has prepared, only reads, as a GET requires. Refused are INSERT, UPDATE,
// DELETE and MERGE, also in a WITH or under EXPLAIN; row locks (FOR UPDATE); and every command other than SELECT,
// VALUES, TABLE, WITH, SHOW and EXPLAIN. Functions that the statement calls are not checked.
[[nodiscard]] core::Task<Result<void>> check_reading(Database& database, const DatabaseOptions& options,
                                                     std::string_view statement, std::span<const Parameter> declared);

}  // namespace sluice::sql
