#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

#include "sql/parameters.h"

// Whether a statement may be asked for in ranges of a table. It may where each row of its answer comes from one row of
// the table, whatever else there is: then the answers for ranges that do not overlap, one behind the other, are the
// answer for all of them. Two things together say so:
//
//   the text   names the range nowhere but in `ctid >= :ctid_from` and `ctid < :ctid_to`, so nothing else of it depends
//              on which range is asked for;
//   the plan   scans the table by these two conditions, and nothing above the scan takes more than a row at a time.
//
// The plan is that for any values (a generic one), with all other ways to scan a table turned off: which plan is taken
// later is a matter of time, and not of what the answer is.
namespace sluice::sql::postgres {

// Where the two parameters stand among the statement's.
struct RangeParameters {
  std::size_t from = 0;
  std::size_t to = 0;
};

// An error says what is wrong with the statement.
[[nodiscard]] std::expected<RangeParameters, std::string> find_range(const ParsedSql& parsed);

// The table that is scanned, as the catalog has it.
struct ScannedTable {
  std::string schema;
  std::string name;
};

// `json`: what EXPLAIN (VERBOSE, FORMAT JSON) says. An error says why the statement cannot be read in ranges.
[[nodiscard]] std::expected<ScannedTable, std::string> check_plan(std::string_view json, RangeParameters range);

}  // namespace sluice::sql::postgres
