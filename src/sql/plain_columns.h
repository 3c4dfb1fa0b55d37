#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "sql/database.h"
#include "sql/set/table.h"

// Which of a statement's columns are columns of its one table, by its text. Neither database tells whether a column of
// an answer can be NULL: an outer join, a view or an aggregate makes it so whatever the table declares. So only what is
// certainly none of these is read: SELECT ... FROM one table, and RETURNING of a statement that names no other table.
namespace sluice::sql {

struct PlainColumns {
  enum class Kind : std::uint8_t { column, all, expression };
  struct Item {
    Kind kind = Kind::expression;
    std::string name;  // of a column
  };
  std::string table;  // as describe_table() takes it
  std::vector<Item> items;
};

// Nothing: it may be something else.
[[nodiscard]] std::optional<PlainColumns> plain_columns(std::string_view statement, Dialect dialect);

// Of each of the statement's columns, whether it is never NULL. Empty: of none is that known.
// `statement` is as Statement::text has it, `columns` are those that the database has described.
[[nodiscard]] core::Task<std::vector<bool>> never_null(Database& database, Dialect dialect, std::string statement,
                                                       std::vector<Column> columns);

}  // namespace sluice::sql
