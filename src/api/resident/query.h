#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "api/resident/table.h"

// What a request asks of a resident table, by its query string:
//
//   roles=admin                 rows in whose `roles` there is admin
//   popularity=gte.10           a range: gt, gte, lt, lte
//   id=in.(1,2,"a,b")           one of them
//   email=is.null               or is.not_null
//   name=eq.gte.10              eq, for values that look like something else
//   sort=-popularity,name       descending, ascending; NULL comes last, first where it is descending
//   limit=20&offset=40
//   fields=id,name              these members alone
//
// Several conditions hold together. Only columns that have an index can be asked for.
namespace sluice::api::resident {

struct Condition {
  const Index* index = nullptr;
  enum class Kind : std::uint8_t { values, range, null, not_null } kind = Kind::values;
  std::vector<std::uint32_t> values;  // ids, each once; what no row has is not among them
  Index::Range range;                 // of ranks
};

struct Order {
  const Index* index = nullptr;
  bool descending = false;
};

struct Query {
  std::vector<Condition> conditions;
  std::vector<Order> order;
  std::uint64_t offset = 0;
  std::uint64_t limit = UINT64_MAX;
  std::vector<std::uint32_t> fields;  // columns; empty: all of them
};

// What cannot be asked: 400, with the parameter's name and what is possible.
struct Refused {
  std::string parameter;
  std::string detail;
};

inline constexpr std::size_t most_conditions = 32;
inline constexpr std::size_t most_values = 1000;  // of one `in`

// The table outlives the query.
[[nodiscard]] std::expected<Query, Refused> parse_query(const Table& table, std::string_view query);

}  // namespace sluice::api::resident
