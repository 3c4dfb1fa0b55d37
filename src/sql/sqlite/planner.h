#pragma once

#include <string_view>

struct sqlite3;

namespace sluice::sql::sqlite {

// Where a statement runs. Decided once, when it is prepared.
struct Plan {
  // Every table is searched through an index or rowid, by equality or by equality and a range, and nothing is sorted.
  bool on_core = false;
  bool single_row = false;  // the program has no loop, so it returns at most one row

  friend bool operator==(const Plan&, const Plan&) = default;
};

// Reads SQLite's plan (EXPLAIN QUERY PLAN) and program (EXPLAIN). A statement with an unknown construct runs in the
// blocking pool.
[[nodiscard]] Plan plan_of(sqlite3* database, std::string_view statement);

}  // namespace sluice::sql::sqlite
