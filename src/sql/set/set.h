#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sql/database.h"
#include "sql/set/table.h"

// A set of rows that is to become the contents of a part of a table, in one transaction: rows are gathered in a
// temporary table with the types of the table's own columns, and a few statements then compare and write. So keys are
// equal where the database says so, never by how they are spelled.
namespace sluice::sql {

struct SetColumn {
  std::string name;
  bool key = false;
  bool shared = false;     // one value for all rows of the set: it is no part of the staged rows
  bool optional = false;   // a staged row may leave it as it is
  bool defaulted = false;  // a staged row that leaves it has what a new row gets, and not the table's own default
};

struct SetOptions {
  std::vector<SetColumn> columns;
  std::string existing;  // the SELECT of what the set may change; empty: all of the table, and nothing is deleted
  bool removes = true;   // what `existing` selects and the set does not have
};

// Made at start, immutable, shared by all cores.
struct SetPlan {
  Dialect dialect{};
  std::vector<std::string> staged;    // the columns that rows have, in order
  std::vector<bool> optional;         // which of them may be left as they are
  std::vector<bool> not_null;         // which of them may not be NULL
  std::string create;                 // the temporary table
  std::string load;                   // PostgreSQL: COPY; SQLite: INSERT of one row
  std::string index;                  // SQLite: of the temporary table; empty: none
  std::vector<Parameter> parameters;  // of all statements; a shared column is a parameter of its name
  Statement distinct;                 // how many keys there are
  Statement duplicates;               // line and row of each whose key was there before, and that row; at most 100
  std::optional<Statement> outside;   // line and row of each whose key the table has, and `existing` does not; likewise
  std::optional<Statement> remove;
  std::optional<Statement> remove_null;  // rows of `existing` without a value in a key, which no staged row can be
  // Where deleting may delete more rows of the table: how many of the staged rows it has, and, SQLite, how many rows
  // `remove` is to delete.
  std::optional<Statement> counts;
  std::optional<Statement> update;
  Statement insert;
  // Which rows the database refuses, after it has refused all of them. PostgreSQL: commands, one each, that fill the
  // temporary table sluice_faults, with the parameters as settings: named as setting_of() has them, a "v" before the
  // value, and empty for NULL. They write the rows that are good: they run in a transaction that is rolled back.
  // With `updates_alone` they change rows, and insert none.
  // SQLite: `update` and `insert` of staged rows in a row, whose first and last are their last two parameters.
  std::vector<std::string> find_faults;
  Statement set_value;  // name and value of a setting
  Statement faults;     // what is in that table
  std::optional<Statement> update_rows;
  Statement insert_rows;
};

// In front of SetPlan::find_faults.
inline constexpr std::string_view updates_alone = "SET LOCAL sluice_set.updates_alone = 'yes'";
// The setting that PostgreSQL's SetPlan::find_faults reads a parameter from.
[[nodiscard]] std::string setting_of(std::string_view parameter);

// The name of the parameter that holds a shared column's value.
[[nodiscard]] std::string shared_parameter(std::string_view column);

// An error of one of the plan's statements: the parameter that it names is counted among the plan's own.
[[nodiscard]] Error renumbered(Error error, const Statement& statement, const SetPlan& plan);

// `declared`: the parameters of `existing`. Failure::statement says what the configuration does wrong.
[[nodiscard]] core::Task<Result<SetPlan>> prepare_set(Database& database, Dialect dialect, const Table& table,
                                                      SetOptions options, std::vector<Parameter> declared);

}  // namespace sluice::sql
