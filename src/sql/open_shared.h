#pragma once

#include <memory>
#include <utility>

#include "sql/open.h"
#include "sql/sqlite/writer.h"

namespace sluice::sql {

struct SharedSqlite final : SharedDatabase {
  explicit SharedSqlite(std::unique_ptr<SqliteWriter> opened) : writer(std::move(opened)) {}
  std::unique_ptr<SqliteWriter> writer;
};

struct SharedPostgres final : SharedDatabase {
  explicit SharedPostgres(net::Resolver& given) : resolver(given) {}
  net::Resolver& resolver;
};

}  // namespace sluice::sql
