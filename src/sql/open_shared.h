#pragma once

#include <memory>
#include <utility>

#include "sql/open.h"
#include "sql/sqlite/writer.h"

namespace sluice::sql {

// What SharedDatabase is for SQLite.
struct SharedSqlite final : SharedDatabase {
  explicit SharedSqlite(std::unique_ptr<SqliteWriter> opened) : writer(std::move(opened)) {}
  std::unique_ptr<SqliteWriter> writer;
};

// What it is for PostgreSQL.
struct SharedPostgres final : SharedDatabase {
  explicit SharedPostgres(net::Resolver& given) : resolver(given) {}
  net::Resolver& resolver;
};

}  // namespace sluice::sql
