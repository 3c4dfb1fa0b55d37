#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/resident/resident.h"
#include "app/config/source.h"
#include "app/loop.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::app {

// Has the statements of one [[resident]] described by its database. What is wrong with them, or with its key and index,
// becomes an error of the file; then there is no plan. An error is a database that is no longer there.
[[nodiscard]] sql::Result<std::shared_ptr<const api::resident::Plan>> prepare_resident(
    Loop& loop, const api::resident::ResidentOptions& options, const sql::DatabaseOptions& database_options,
    sql::Database& database, const config::Source& source, std::vector<config::Diagnostic>& errors);

}  // namespace sluice::app
