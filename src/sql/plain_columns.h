#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "sql/database.h"
#include "sql/set/table.h"

// Finds, in a statement's text, which of its columns are plain columns of its one table. Neither database reports
// whether a column of an answer can be NULL: an outer join, a view or an aggregate can make it NULL whatever the table
// declares. Only two forms, which contain none of these, are recognized: SELECT ... FROM one table, and RETURNING of a
// statement that names no other table.
namespace sluice::sql {

struct PlainColumns {
  enum class Kind : std::uint8_t { column, all, expression };
  struct Item {
    Kind kind = Kind::expression;
    std::string name;  // the column's name, if kind is `column`
  };
  std::string table;  // as describe_table() expects it
  std::vector<Item> items;
};

// Returns nothing if the statement may have another form.
[[nodiscard]] std::optional<PlainColumns> plain_columns(std::string_view statement, Dialect dialect);

// For each of the statement's columns, whether it is never NULL. Empty if this is unknown for all of them. `statement`
// is the Statement::text, and `columns` are those that the database has described.
[[nodiscard]] core::Task<std::vector<bool>> never_null(Database& database, Dialect dialect, std::string statement,
                                                       std::vector<Column> columns);

}  // namespace sluice::sql
