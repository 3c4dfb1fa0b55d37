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

// Makes a set of rows the contents of a part of a table, in one transaction. The rows are gathered in a temporary table
// with the types of the table's own columns; a few statements then compare and write. So the database decides which
// keys are equal, whatever their spelling.
namespace sluice::sql {

struct SetColumn {
  std::string name;
  bool key = false;
  bool shared = false;     // one value for all rows of the set; not part of the staged rows
  bool optional = false;   // a staged row may leave it out and so keep its value
  bool defaulted = false;  // a new row without it gets the staged value, not the table's default
};

struct SetOptions {
  std::vector<SetColumn> columns;
  std::string existing;  // the SELECT of the rows that the set may change; empty: all rows, and none is deleted
  bool removes = true;   // deletes the rows that `existing` selects and the set does not contain
  // The user's own statements, which run once for each row. Their parameters are columns, or else parameters of the
  // endpoint. With `own_insert`, the set ignores rows of the table that `existing` does not select. Empty: absent.
  std::string own_delete{};
  std::string own_insert{};
  std::string own_update{};
};

// Writes rows. If `each` is not empty, the user's own statement writes them. SQLite: `each` is that statement, and this
// one selects its arguments for each row. PostgreSQL: `each` creates a temporary function that runs the user's
// statement and returns how many rows it has changed, and this statement calls the function for each row.
struct SetStep : Statement {
  std::string each{};
  std::string drop{};  // PostgreSQL: drops the function
};

// Made at start, immutable, shared by all cores.
struct SetPlan {
  Dialect dialect{};
  std::vector<std::string> staged;    // the columns of the staged rows, in order
  std::vector<bool> optional;         // which of them a row may leave out
  std::vector<bool> not_null;         // which of them may not be NULL
  std::string create;                 // creates the temporary table
  std::string load;                   // PostgreSQL: COPY; SQLite: INSERT of one row
  std::string type_check;             // Statement::type_check for the staged rows
  std::string index;                  // SQLite: creates the temporary table's index; empty: none
  std::vector<Parameter> parameters;  // of all statements; for shared columns see shared_parameter()
  Statement distinct;                 // counts the distinct keys
  Statement duplicates;  // line and row of each duplicate of an earlier key, and the earlier row; at most 100
  std::optional<Statement> outside;  // line and row of each key that is in the table and not in `existing`; at most 100
  std::optional<SetStep> remove;
  // Deletes rows of `existing` with NULL in a key column, because no staged row can match them.
  std::optional<SetStep> remove_null;
  // Present if deleting a row may delete other rows of the table. Counts the staged rows that the table has, and, for
  // SQLite, the rows that `remove` will delete.
  std::optional<Statement> counts;
  std::optional<SetStep> update;
  SetStep insert;
  // Find the rows that the database refuses, after it has refused the whole set. PostgreSQL: commands, each run
  // separately, that fill the temporary table sluice_faults. They read the parameters as settings with the names of
  // setting_of(); a value has the prefix "v", and an empty setting is NULL. They write the valid rows, so they run in a
  // transaction that is rolled back. With `updates_alone` they update rows and insert none. SQLite: `update_rows` and
  // `insert_rows` process a range of staged rows; their last two parameters are its first and last row.
  std::vector<std::string> find_faults;
  Statement set_value;  // sets a setting; its parameters are name and value
  Statement faults;     // reads sluice_faults
  std::optional<SetStep> update_rows;
  SetStep insert_rows;
};

// Run before SetPlan::find_faults.
inline constexpr std::string_view updates_alone = "SET LOCAL sluice_set.updates_alone = 'yes'";
// The setting from which PostgreSQL's SetPlan::find_faults reads a parameter.
[[nodiscard]] std::string setting_of(std::string_view parameter);

// The name of the parameter that holds a shared column's value.
[[nodiscard]] std::string shared_parameter(std::string_view column);

// Renumbers an error of one of the plan's statements: its parameter becomes an index into the plan's parameters.
[[nodiscard]] Error renumbered(Error error, const Statement& statement, const SetPlan& plan);

// Prepares one of the user's own statements with the types that its parameters will have. Used to check it.
[[nodiscard]] core::Task<Result<Statement>> prepare_row_statement(Database& database, Dialect dialect,
                                                                  const Table& table, const SetOptions& options,
                                                                  std::string text, std::vector<Parameter> declared);

// `declared`: the parameters of `existing` and of the user's own statements. Failure::statement describes an error in
// the configuration.
[[nodiscard]] core::Task<Result<SetPlan>> prepare_set(Database& database, Dialect dialect, const Table& table,
                                                      SetOptions options, std::vector<Parameter> declared);

}  // namespace sluice::sql
