#pragma once

#include <memory>

#include "app/loop.h"
#include "app/options.h"
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

// The error's words, with its SQLSTATE.
[[nodiscard]] std::string describe(const sql::Error& error);

}  // namespace sluice::app
