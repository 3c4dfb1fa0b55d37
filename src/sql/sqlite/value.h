#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "sql/column_kind.h"
#include "sql/database.h"
#include "sql/sqlite/row_block.h"

struct sqlite3_stmt;

namespace sluice::sql::sqlite {

// Adds the statement's current row. Integers and reals become text, reals always with a point or an exponent; invalid
// UTF-8 is replaced by U+FFFD. `columns` supplements the values' storage classes: it marks booleans, JSON, and REAL
// values, which RETURNING yields as integers if SQLite stores them so.
void append_row(RowBlock& block, sqlite3_stmt* statement, std::span<const ColumnKind> columns);

// Copies of arguments that outlive their request, for another thread or for later.
struct OwnedArguments {
  OwnedArguments() = default;
  explicit OwnedArguments(std::span<const Argument> arguments);
  std::vector<Argument> list;

 private:
  std::unique_ptr<char[]> bytes_;
};

// Binds all arguments; their texts must last until the statement is reset.
[[nodiscard]] Result<void> bind(sqlite3_stmt* statement, std::span<const Argument> arguments,
                                std::span<const Parameter> parameters = {});

}  // namespace sluice::sql::sqlite
