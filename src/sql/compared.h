#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What a statement's text says its parameters are compared with, or written to: SQLite, which gives parameters no types
// of their own, says nothing of it.
namespace sluice::sql {

// A parameter that the statement mentions once, where it can only stand for a value of one column: nothing that the
// statement returns, or changes, is left without `column = ?1`, or it writes the parameter to the column.
struct Compared {
  std::size_t parameter = 0;        // counted from 0
  std::string column;               // names are in lower case
  std::vector<std::string> tables;  // of the main schema: one of them has the column
};

// `statement` as SQLite takes it, with the placeholders of ParsedSql::text. Nothing is guessed: of WITH, UNION, OR, a
// subquery or a function in FROM, an alias with the column's name, and all else that may mean something else, nothing
// is said.
// `mentions`: whether a parameter that stands in several places is left out, or there is one for each place that names a
// column.
enum class Mentions : std::uint8_t { one, any };
[[nodiscard]] std::vector<Compared> compared_columns(std::string_view statement, Mentions mentions = Mentions::one);

}  // namespace sluice::sql
