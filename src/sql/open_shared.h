#pragma once

#include <memory>
#include <utility>

#include "sql/open.h"
#include "sql/sqlite/writer.h"

namespace sluice::sql {

// The SharedDatabase of SQLite.
struct SharedSqlite final : SharedDatabase {
  explicit SharedSqlite(std::unique_ptr<SqliteWriter> opened) : writer(std::move(opened)) {}
  std::unique_ptr<SqliteWriter> writer;
};

// The SharedDatabase of PostgreSQL.
struct SharedPostgres final : SharedDatabase {
  explicit SharedPostgres(net::Resolver& given) : resolver(given) {}
  net::Resolver& resolver;
};

}  // namespace sluice::sql
