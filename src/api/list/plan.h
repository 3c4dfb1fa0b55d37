#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/query/query.h"
#include "sql/column_kind.h"
#include "sql/database.h"

// Lists: the rows of a `get` with filters, search, order, pages and a count. The configured statement becomes a
// subquery.
namespace sluice::api::list {

// A prepared [endpoint.list]. Immutable, shared by all cores.
struct Plan {
  struct Column {
    std::string name;        // as SQL: list."name"
    std::string quoted;      // "name"
    sql::ColumnKind kind{};  // how SQLite compares it
    bool may_be_null = true;
    bool is_json = false;  // SQLite: by a function of the statement, which the outer statement has to repeat
  };
  enum class Search : std::uint8_t { none, words, fts, tsvector };

  sql::Dialect dialect{};
  query::Vocabulary vocabulary;
  std::vector<Column> columns;  // those of `get`, as in the vocabulary
  std::vector<query::Key> order;
  Search search = Search::none;
  std::vector<std::size_t> searched;  // words: the columns; fts: the key; tsvector: the column
  std::string search_name;            // fts: the table; tsvector: the configuration
  std::uint64_t standard_limit = 50;
  std::uint64_t most_rows = 200;
  std::uint64_t max_offset = 10'000;
};

// "name", with its quotes doubled.
[[nodiscard]] std::string quoted_name(std::string_view name);

}  // namespace sluice::api::list
