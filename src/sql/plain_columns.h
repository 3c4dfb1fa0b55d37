#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "sql/database.h"
#include "sql/set/table.h"

// Finds, in a statement's text, which of its columns are plain columns of its tables. Neither database reports whether
// a column of an answer can be NULL: an outer join, a view or an aggregate can make it NULL whatever the table
// declares. Only two forms are recognized: SELECT ... FROM tables with inner, cross and left joins, and RETURNING of a
// statement that names no other table.
namespace sluice::sql {

struct PlainColumns {
  enum class Kind : std::uint8_t { column, all, expression };
  struct Item {
    Kind kind = Kind::expression;
    std::string name;                  // the column's name, if kind is `column`
    std::optional<std::size_t> table;  // index of the table that qualifies it, if one does
  };
  struct Table {
    std::string name;            // as describe_table() expects it
    bool may_be_absent = false;  // a left join can make all of its columns NULL
  };
  std::vector<Table> tables;
  std::vector<Item> items;
};

// Returns nothing if the statement may have another form.
[[nodiscard]] std::optional<PlainColumns> plain_columns(std::string_view statement, Dialect dialect);

// The declaration of an answer's column in its table.
struct ColumnFacts {
  bool never_null = false;
  std::string type = {};  // PostgreSQL: TableColumn::type; empty: not known
};

// The facts of each of the statement's columns. Empty if nothing is known about all of them. `statement` is the
// Statement::text, and `columns` are those that the database has described.
[[nodiscard]] core::Task<std::vector<ColumnFacts>> column_facts(Database& database, Dialect dialect,
                                                                std::string statement, std::vector<Column> columns);

}  // namespace sluice::sql
