#pragma once

#include <string_view>

#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/postgres/options.h"

namespace sluice::sql::postgres {

// sql::run_script() for PostgreSQL: a session of its own, and one simple query.
[[nodiscard]] core::Task<Result<void>> run_script(Options options, core::Reactor& reactor, std::string_view script,
                                                  Instant deadline);

}  // namespace sluice::sql::postgres
