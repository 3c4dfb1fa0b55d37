#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// What a statement's text says its parameters are compared with, or written to: SQLite, which gives parameters no types
// of their own, says nothing of it.
namespace sluice::sql {

struct Compared {
  struct Pair {
    std::size_t parameter = 0;  // counted from 0
    std::string column;         // in lower case, without what it may be qualified with
  };
  // `column = ?1` and the like, `column BETWEEN ?1 AND ?2`, `column IN (?1, ?2)`, `INSERT INTO t (column) VALUES (?1)`.
  // Nothing is guessed: where WITH, UNION or an alias might mean something else by
  // a column's name, it is not here.
  std::vector<Pair> pairs;
  std::vector<std::string> names;  // all that may be a table's, in lower case
};

// A statement as SQLite takes it, with the placeholders of ParsedSql::text.
[[nodiscard]] Compared compared_columns(std::string_view statement);

}  // namespace sluice::sql
