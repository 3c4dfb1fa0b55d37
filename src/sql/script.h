#pragma once

#include <string_view>

#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::sql {

// Runs any number of statements, as psql or sqlite3 would read them from a file, on a connection of its own; their rows
// are dropped. For schemas, test data, CREATE DATABASE: not for requests. PostgreSQL: a script without BEGIN is one
// transaction, and there are neither psql's backslash commands nor COPY FROM STDIN. SQLite: the file is made where
// there is none, foreign keys are enforced, and the calling thread is blocked. An error's position is a character of
// `script`. What is not done at the deadline is given up: Failure::timed_out. `options` and `script` outlive the call.
[[nodiscard]] core::Task<Result<void>> run_script(const DatabaseOptions& options, core::Reactor& reactor,
                                                  std::string_view script, Instant deadline);

}  // namespace sluice::sql
