#include "sql/column_kind.h"

#include <utility>

#include <gtest/gtest.h>

namespace sluice::sql {
namespace {

TEST(ColumnKind, OfDeclaredTypesOfSqlite) {
  const std::pair<const char*, ColumnKind> declared[] = {
      {"", ColumnKind::any},
      {"any", ColumnKind::any},  // in a STRICT table
      {"INTEGER", ColumnKind::integer},
      {"bigint", ColumnKind::integer},
      {"POINT", ColumnKind::value},  // SQLite's affinity is INTEGER, because the name contains INT
      {"interval", ColumnKind::value},
      {"varchar(20)", ColumnKind::text},
      {"Text", ColumnKind::text},
      {"CLOB", ColumnKind::text},
      {"blob", ColumnKind::bytes},
      {"DOUBLE PRECISION", ColumnKind::real},
      {"float", ColumnKind::real},
      {"DECIMAL(10,2)", ColumnKind::numeric},
      {"number", ColumnKind::numeric},
      {"Boolean", ColumnKind::boolean},
      {"BOOL", ColumnKind::boolean},
      {"json", ColumnKind::json},
      {"JSONB", ColumnKind::json},
      {"DATE", ColumnKind::value},
      {"timestamp with time zone", ColumnKind::value},
      {"Uuid", ColumnKind::value},
      {"STRING", ColumnKind::other},
  };
  for (const auto& [type, kind] : declared) EXPECT_EQ(sqlite_column_kind(type), kind) << type;
  EXPECT_EQ(sqlite_column_kind("Any", Strictness::loose), ColumnKind::other) << "its affinity is NUMERIC";
}

}  // namespace
}  // namespace sluice::sql
