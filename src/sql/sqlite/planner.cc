#include "sql/sqlite/planner.h"

#include <algorithm>
#include <string>

#include <sqlite3.h>

namespace sluice::sql::sqlite {
namespace {

// Returns an empty text if the column is NULL.
std::string_view text_of(sqlite3_stmt* handle, int column) {
  const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(handle, column));
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

// Calls `row` with each row until `row` returns false. Returns false if `row` did, or if the statement failed.
template <class Row>
bool each_row(sqlite3* database, std::string_view explain, std::string_view statement, Row row) {
  std::string text(explain);
  text += statement;
  sqlite3_stmt* handle = nullptr;
  if (sqlite3_prepare_v2(database, text.data(), static_cast<int>(text.size()), &handle, nullptr) != SQLITE_OK) {
    return false;
  }
  bool good = true;
  int code = SQLITE_ROW;
  while (good && (code = sqlite3_step(handle)) == SQLITE_ROW) {
    good = row(handle);
  }
  sqlite3_finalize(handle);
  return good && code == SQLITE_DONE;
}

// Whether a term is an equality: "SEARCH films USING INDEX by_slug (slug=? AND year>?)". A range behind it may be long;
// then the look-up is too large for the core and stops.
bool is_equality_search(std::string_view detail) {
  if (!detail.starts_with("SEARCH ") || detail.find(" AUTOMATIC ") != detail.npos) return false;
  if (detail.find(" VIRTUAL TABLE ") != detail.npos) return false;
  const auto open = detail.rfind('(');
  if (open == detail.npos) return false;
  const std::string_view terms = detail.substr(open);
  return terms.contains("=?");
}

bool is_bounded(std::string_view detail) {
  return is_equality_search(detail) || detail == "SCAN CONSTANT ROW" || detail.starts_with("SCALAR SUBQUERY ") ||
         detail.starts_with("CORRELATED SCALAR SUBQUERY ");
}

template <std::size_t size>
bool is_one_of(std::string_view opcode, const std::string_view (&opcodes)[size]) {
  return std::find(std::begin(opcodes), std::end(opcodes), opcode) != std::end(opcodes);
}

// Opcodes of sorters, virtual tables, materialised views and triggers, which may do much work between two rows.
constexpr std::string_view unbounded[] = {"SorterOpen", "OpenAutoindex", "VOpen",   "VFilter",
                                          "OpenPseudo", "InitCoroutine", "Program", "Count"};
// Functions that run in the pool. No deadline ends a call, and the work of most grows with the product of their
// arguments' lengths. printf() and format() are listed because they return NULL, not an error, if the result exceeds
// the connection's limit, which is small on a core.
constexpr std::string_view pooled[] = {"format", "glob",   "instr",   "json_patch", "like",
                                       "ltrim",  "printf", "replace", "rtrim",      "trim"};
// Opcodes with which a program can loop.
constexpr std::string_view looping[] = {"Next", "Prev", "SorterNext", "VNext", "Yield", "Gosub", "RowSetRead"};

}  // namespace

Plan plan_of(sqlite3* database, std::string_view statement) {
  bool any = false;
  const bool bounded = each_row(database, "EXPLAIN QUERY PLAN ", statement, [&](sqlite3_stmt* row) {
    any = true;
    return is_bounded(text_of(row, 3));
  });
  if (!bounded || !any) return {};

  int loops = 0;
  int results = 0;
  const bool known = each_row(database, "EXPLAIN ", statement, [&](sqlite3_stmt* row) {
    const std::string_view opcode = text_of(row, 1);
    const std::string_view function = text_of(row, 5);  // "like(2)"
    if (opcode.contains("Func") && is_one_of(function.substr(0, function.find('(')), pooled)) return false;
    loops += is_one_of(opcode, looping);
    results += opcode == "ResultRow";
    return !is_one_of(opcode, unbounded);
  });
  if (!known) return {};
  return {true, loops == 0 && results == 1};
}

}  // namespace sluice::sql::sqlite
