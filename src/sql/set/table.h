#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "sql/column_kind.h"
#include "sql/database.h"

namespace sluice::sql {

// When two values of a column look the same in an answer.
enum class Equality : std::uint8_t {
  exact,  // if they are equal
  both,   // if they are equal and their texts are equal: 0 and -0 differ
  text,   // if their texts are equal: for types with a coarser equality (citext, 30 days and a month) or without one
};

struct TableColumn {
  std::string name;
  std::string type;           // as CAST takes it; SQLite: as declared, may be empty
  std::string collation;      // if it is not the default one; PostgreSQL: in SQL syntax
  Equality equality{};        // PostgreSQL
  std::string default_value;  // an SQL expression; empty: none
  bool not_null = false;
  bool generated = false;  // the database computes the value, and it cannot be written
  bool row_id = false;     // SQLite: the rowid, which is never NULL, whatever is declared
  ColumnKind kind{};
  std::shared_ptr<const Type> nested{};  // PostgreSQL: for an array or a composite type; otherwise null
};

struct Table {
  std::string name;  // quoted; with its schema if one was given
  std::vector<TableColumn> columns;
  bool strict = false;                           // SQLite
  bool is_view = false;                          // SQLite
  bool has_indices = false;                      // false for tables that cannot have indexes, such as views
  bool deletes_more = false;                     // deleting a row may delete others, by a cascade or a trigger
  bool acts_alone = false;                       // a trigger or a rule may act even if no row is written
  bool updates_trigger = false;                  // an UPDATE runs a trigger
  bool is_partitioned = false;                   // PostgreSQL
  std::vector<std::vector<std::string>> unique;  // the columns of each unique index or constraint that covers all rows
  // " OR ABORT" for the table's INSERT and UPDATE, or empty. For SQLite tables with a constraint that says ON CONFLICT,
  // which could delete other rows or skip the written one. The clause also overrides the conflict handling of the
  // triggers' statements, so other tables are written without it.
  std::string or_abort{};
  std::string type_check{};  // Statement::type_check for all columns

  // Whether the table guarantees that no two rows have the same values in these columns.
  [[nodiscard]] bool is_unique(const std::vector<std::string>& by) const;
  [[nodiscard]] const TableColumn* find(std::string_view column) const;
};

// An SQL condition that is true if the column's value `there` and the expression `value`, which has the column's type,
// look different in an answer. JSON's null and SQL's NULL look the same, so neither replaces the other. JSON that
// differs only in line ends looks the same too, because formats with one row per line do not keep them.
[[nodiscard]] std::string shows_another(Dialect dialect, const TableColumn& column, const std::string& there,
                                        const std::string& value);

// "name", quoted as an SQL identifier.
[[nodiscard]] std::string quoted_identifier(std::string_view name);

// Describes a table or view by its name in the configuration: `films`, or `archive.films`, unquoted and case-sensitive.
// Failure::statement if the table does not exist.
[[nodiscard]] core::Task<Result<Table>> describe_table(Database& database, Dialect dialect, std::string name);

}  // namespace sluice::sql
