#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Finds, in a statement's text, the columns that its parameters are compared with or written to. SQLite itself gives
// parameters no types.
namespace sluice::sql {

// One use of a parameter as a value of one column.
struct Compared {
  // If one parameter has several uses, the first in this order counts.
  enum class Use : std::uint8_t {
    chosen,    // stored unless it is NULL: coalesce(?1, a)
    stored,    // a = ?1 in SET, or a value of INSERT
    equal,     // only rows with `a = ?1` are returned or changed
    compared,  // compared in another way: a < ?1, a <> ?1
  };

  std::size_t parameter = 0;          // counted from 0
  std::string column{};               // in lower case, like all names; empty: the column at `position`
  std::vector<std::string> tables{};  // tables of the main schema; one of them has the column
  Use use{};
  // For an INSERT without a column list: an index among the table's columns that are not generated.
  std::size_t position = 0;
};

// Which uses compared_columns() returns.
enum class Mentions : std::uint8_t {
  one,  // only parameters that the statement mentions once, in `a = ?1` or INSERT INTO t (a) VALUES (?1)
  any,  // one entry for each place that names a column
};
// `statement` is in SQLite's form, with the placeholders of ParsedSql::text. Nothing is guessed: uses in WITH, UNION,
// OR, NOT, a subquery or a function in FROM, an alias with the column's name, and all other ambiguous constructs are
// left out.
[[nodiscard]] std::vector<Compared> compared_columns(std::string_view statement, Mentions mentions = Mentions::one);

}  // namespace sluice::sql
