#pragma once

#include <span>
#include <string_view>

#include "core/task.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::sql {

// Whether a statement that `database` has prepared only reads, as what answers a GET must. Refused: INSERT, UPDATE,
// DELETE and MERGE, also in a WITH or under EXPLAIN, locking rows (FOR UPDATE), and all commands that are neither
// SELECT, VALUES, TABLE, WITH, SHOW nor EXPLAIN. What the functions that it calls do cannot be seen from here.
[[nodiscard]] core::Task<Result<void>> check_reading(Database& database, const DatabaseOptions& options,
                                                     std::string_view statement, std::span<const Parameter> declared);

}  // namespace sluice::sql
