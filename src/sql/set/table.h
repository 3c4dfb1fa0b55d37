#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/task.h"
#include "sql/database.h"

namespace sluice::sql {

struct TableColumn {
  std::string name;
  std::string type;        // as CAST takes it; SQLite: as it was declared, may be empty
  std::string collation;   // SQLite: where it is not BINARY
  std::string default_value;  // an SQL expression; empty: none
  bool not_null = false;
  bool generated = false;  // the database makes its values: nobody else may
};

struct Table {
  std::string name;  // quoted, with its schema where one was named
  std::vector<TableColumn> columns;

  [[nodiscard]] const TableColumn* find(std::string_view column) const;
};

enum class Dialect : std::uint8_t { postgres, sqlite };

// "name", quoted as an SQL identifier.
[[nodiscard]] std::string quoted_identifier(std::string_view name);

// A table or view by its name as the configuration writes it: `films`, or `archive.films`; unquoted, and its case
// counts. `id` is of a statement that nobody else uses. Failure::statement: there is none.
[[nodiscard]] core::Task<Result<Table>> describe_table(Database& database, Dialect dialect, std::string name,
                                                       std::uint32_t id);

}  // namespace sluice::sql
