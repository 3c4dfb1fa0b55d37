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

// When two values of a column show as the same.
enum class Equality : std::uint8_t {
  exact,  // when they are equal
  both,   // when they are equal and their texts are: 0 and -0
  text,   // when their texts are: types whose equality is coarser (citext, 30 days and a month), or that have none
};

struct TableColumn {
  std::string name;
  std::string type;           // as CAST takes it; SQLite: as it was declared, may be empty
  std::string collation;      // where it is not the default one; PostgreSQL: as SQL writes it
  Equality equality{};        // PostgreSQL
  std::string default_value;  // an SQL expression; empty: none
  bool not_null = false;
  bool generated = false;  // the database makes its values: nobody else may
  bool row_id = false;     // SQLite: never NULL, whatever is declared
  ColumnKind kind{};
  std::shared_ptr<const Type> nested{};  // PostgreSQL: of an array or a composite type; null: it is neither
};

struct Table {
  std::string name;  // quoted, with its schema where one was named
  std::vector<TableColumn> columns;
  bool strict = false;                           // SQLite
  bool is_view = false;                          // SQLite
  bool has_indices = false;                      // it is none of those that cannot have any, such as views
  bool deletes_more = false;                     // deleting a row may delete others: by cascades, or by a trigger
  bool acts_alone = false;                       // a trigger or a rule may do something where no row is written
  std::vector<std::vector<std::string>> unique;  // the columns of each index or constraint that holds for all rows
  // " OR ABORT" for its INSERT and UPDATE: SQLite, where a constraint says ON CONFLICT, which would delete other rows
  // or leave out the one that is written. The statements of its triggers obey it too: other tables are written without
  // it.
  std::string or_abort{};

  // Whether no two rows have the same values in these columns, as far as the table itself sees to it.
  [[nodiscard]] bool is_unique(const std::vector<std::string>& by) const;
  [[nodiscard]] const TableColumn* find(std::string_view column) const;
};

// An SQL condition: the column's value `there` and the expression `value`, which has the column's type, show as
// different values. JSON's null and SQL's NULL show as the same, so that `null` changes neither; so does JSON whose
// lines end elsewhere, as answers that have a row in a line write it.
[[nodiscard]] std::string shows_another(Dialect dialect, const TableColumn& column, const std::string& there,
                                        const std::string& value);

// "name", quoted as an SQL identifier.
[[nodiscard]] std::string quoted_identifier(std::string_view name);

// A table or view by its name as the configuration writes it: `films`, or `archive.films`; unquoted, and its case
// counts. Failure::statement: there is no such table.
[[nodiscard]] core::Task<Result<Table>> describe_table(Database& database, Dialect dialect, std::string name);

}  // namespace sluice::sql
