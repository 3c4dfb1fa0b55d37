#pragma once

#include <cstdint>
#include <expected>
#include <string_view>
#include <vector>

#include "api/query/query.h"
#include "api/resident/pattern.h"
#include "api/resident/table.h"

// The query string of a request for a resident table, as ids and ranks of indexes. api/query/query.h has its grammar.
namespace sluice::api::resident {

// Conditions are possible only on columns with an index. A row without a value meets only `null`. A row with several
// values meets a condition if one of its values does, and a negated one if none does.
struct Condition {
  enum class Kind : std::uint8_t { values, range, like, null, all, any };

  Kind kind = Kind::values;
  bool negated = false;                 // values, range, like; without values, rows that have a value
  const Index* index = nullptr;         // null for all, any
  std::vector<std::uint32_t> values{};  // distinct ids; values that no row has are left out
  Index::Range range{};                 // of ranks; for like, of values with the pattern's beginning
  Pattern pattern{};
  std::vector<Condition> parts{};  // all, any: at least one
};

struct Order {
  const Index* index = nullptr;
  bool descending = false;
};

struct Query {
  std::vector<Condition> conditions;
  std::vector<Order> order;  // NULL comes last, or first if descending
  std::uint64_t offset = 0;
  std::uint64_t limit = UINT64_MAX;
  std::vector<std::uint32_t> fields;  // columns; empty for all
};

using query::Refused;

// The table outlives the query.
[[nodiscard]] std::expected<Query, Refused> parse_query(const Table& table, std::string_view query);

}  // namespace sluice::api::resident
