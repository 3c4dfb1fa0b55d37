#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sql/database.h"

namespace sluice::sql::sqlite {

// The lists of columns that one core's blocks name. Where a table has changed since its statement was described, that
// is another list than the statement's. Every list stays as it is, at its place, as long as its statement
// (Block::columns); so there are as many as the schema has made different ones, and one that comes back is found again.
class ColumnLists {
 public:
  // The statement's own list where its columns have these names, else one that is kept here.
  [[nodiscard]] std::span<const Column> find(const Statement& statement, std::span<const std::string> names);

 private:
  struct List {
    StatementId statement;
    std::vector<Column> columns;
  };
  std::vector<List> lists_;
};

// The columns of these names. SQLite's values say their types themselves.
[[nodiscard]] std::vector<Column> columns_of(std::span<const std::string> names);

}  // namespace sluice::sql::sqlite
