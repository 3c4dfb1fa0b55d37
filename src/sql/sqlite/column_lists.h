#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sql/database.h"

namespace sluice::sql::sqlite {

// The lists of columns that one core's blocks refer to. If a table has changed since its statement was described, the
// blocks need another list than the statement's. A list neither moves nor changes while its statement exists
// (Block::columns). A schema that changes back reuses its earlier list, so there is one list for each distinct schema.
class ColumnLists {
 public:
  // The statement's own list if its columns have these names, otherwise a list that is kept here.
  [[nodiscard]] std::span<const Column> find(const Statement& statement, std::span<const std::string> names);

 private:
  struct List {
    StatementId statement;
    std::vector<Column> columns;
  };
  std::vector<List> lists_;
};

// Makes columns with these names. They have no types, because each SQLite value carries its own.
[[nodiscard]] std::vector<Column> columns_of(std::span<const std::string> names);

}  // namespace sluice::sql::sqlite
