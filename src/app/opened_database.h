#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/loop.h"
#include "app/options.h"
#include "app/plan.h"
#include "net/resolver.h"
#include "sql/database.h"
#include "sql/open.h"

namespace sluice::app {

// A database of the configuration, opened to ask it about statements.
struct OpenedDatabase {
  std::unique_ptr<sql::SharedDatabase> shared;  // null: nothing writes to it
  std::unique_ptr<sql::Database> database;      // destroyed first
};

[[nodiscard]] sql::Result<OpenedDatabase> open_database(Loop& loop, const Options& options,
                                                        const Named<sql::DatabaseOptions>& database);

// Opens what the cores share of each database, except what is open. `resolver`: made when it is needed. What went
// wrong; nothing: all is open.
[[nodiscard]] std::optional<std::string> open_shared_parts(const Plan& plan, std::optional<net::Resolver>& resolver);

// The error's words, with its SQLSTATE.
[[nodiscard]] std::string describe(const sql::Error& error);

}  // namespace sluice::app
