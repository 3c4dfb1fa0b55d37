#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

#include "sql/parameters.h"

// Whether a statement may be read in ranges of a table. It may if each row of the answer depends on one row of that
// table and on no other row of it. Then the answers for disjoint ranges, concatenated, equal the answer for all of
// them. Two checks together ensure this:
//
//   the text   names the range only in `ctid >= :ctid_from` and `ctid < :ctid_to`, so nothing else in the statement
//              depends on the range;
//   the plan   scans the table by these two conditions, and each node above the scan processes one row at a time.
//
// The plan is a generic one, with all other ways to scan a table disabled. PostgreSQL may choose another plan later;
// that changes the speed, and not the answer.
namespace sluice::sql::postgres {

// The indexes of the two parameters in the statement's list.
struct RangeParameters {
  std::size_t from = 0;
  std::size_t to = 0;
};

// An error says what is wrong with the statement.
[[nodiscard]] std::expected<RangeParameters, std::string> find_range(const ParsedSql& parsed);

// The scanned table, as in the catalog.
struct ScannedTable {
  std::string schema;
  std::string name;
};

// `json`: output of EXPLAIN (VERBOSE, FORMAT JSON). An error says why the statement cannot be read in ranges.
[[nodiscard]] std::expected<ScannedTable, std::string> check_plan(std::string_view json, RangeParameters range);

}  // namespace sluice::sql::postgres
