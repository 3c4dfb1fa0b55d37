#pragma once

#include <string_view>

#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::sql {

// Runs a script of any number of statements, as psql or sqlite3 would read it from a file, on a connection of its own,
// and discards their rows. It serves schemas, test data and CREATE DATABASE, not requests. PostgreSQL: a script without
// BEGIN is one transaction; psql's backslash commands and COPY FROM STDIN are not supported. SQLite: a missing file is
// created, foreign keys are enforced, and the call blocks its thread. An error's position is a character of `script`.
// At the deadline the script is abandoned with Failure::timed_out. `options` and `script` outlive the call.
[[nodiscard]] core::Task<Result<void>> run_script(const DatabaseOptions& options, core::Reactor& reactor,
                                                  std::string_view script, Instant deadline);

}  // namespace sluice::sql
