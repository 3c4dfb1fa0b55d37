#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/options.h"
#include "app/plan.h"
#include "app/prepare/loop.h"
#include "net/resolver.h"
#include "sql/database.h"
#include "sql/open.h"

namespace sluice::app {

// A database of the configuration that is opened to prepare statements.
struct OpenedDatabase {
  std::unique_ptr<sql::SharedDatabase> shared;  // null if nothing writes to the database
  std::unique_ptr<sql::Database> database;      // destroyed first
};

[[nodiscard]] sql::Result<OpenedDatabase> open_database(Loop& loop, const Options& options,
                                                        const Named<sql::DatabaseOptions>& database);

// Opens the shared parts of every database that are not open yet, and the files of revocations. `resolver`: created
// when it is needed. Returns the
// error, or nothing if all are open.
[[nodiscard]] std::optional<std::string> open_shared_parts(const Plan& plan, std::optional<net::Resolver>& resolver);

// The error's message with its SQLSTATE.
[[nodiscard]] std::string describe(const sql::Error& error);

}  // namespace sluice::app
