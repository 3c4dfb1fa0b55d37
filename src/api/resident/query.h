#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "api/resident/table.h"

// The query string of a request for a resident table:
//
//   roles=admin                 rows whose `roles` contains admin
//   popularity=gte.10           a range: gt, gte, lt, lte
//   id=in.(1,2,"a,b")           one of these values
//   email=is.null               or is.not_null
//   name=eq.gte.10              eq, for values that look like an operator
//   sort=-popularity,name       descending, ascending; NULL comes last, or first if descending
//   limit=20&offset=40
//   fields=id,name              only these members
//
// A row must meet all conditions. Conditions are possible only on columns with an index.
namespace sluice::api::resident {

struct Condition {
  const Index* index = nullptr;
  enum class Kind : std::uint8_t { values, range, null, not_null } kind = Kind::values;
  std::vector<std::uint32_t> values;  // distinct ids; values that no row has are left out
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
  std::vector<std::uint32_t> fields;  // columns; empty for all
};

// An invalid query: 400, with the parameter's name and the allowed values.
struct Refused {
  std::string parameter;
  std::string detail;
};

inline constexpr std::size_t most_conditions = 32;
inline constexpr std::size_t most_values = 1000;  // of one `in`

// The table outlives the query.
[[nodiscard]] std::expected<Query, Refused> parse_query(const Table& table, std::string_view query);

}  // namespace sluice::api::resident
