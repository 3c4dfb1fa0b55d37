#pragma once

#include <cstdint>
#include <vector>

#include "api/resident/query.h"
#include "api/resident/table.h"

namespace sluice::api::resident {

// The result of a query: rows in the order of the answer, after offset and limit.
struct Selection {
  std::uint64_t total = 0;  // before offset and limit
  bool is_range = false;    // the result is rows [first, last) in the order of the table
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::vector<std::uint32_t> rows;  // the result if it is not a range

  // Precondition: index < size().
  [[nodiscard]] std::uint32_t at(std::uint64_t index) const {
    return is_range ? first + static_cast<std::uint32_t>(index) : rows[index];
  }
  [[nodiscard]] std::uint64_t size() const { return is_range ? last - first : rows.size(); }
};

[[nodiscard]] Selection select(const Table& table, const Query& query);
// An estimate of how many rows select() must look at. It decides whether a thread of the pool runs it.
[[nodiscard]] std::uint64_t effort_of(const Table& table, const Query& query);

}  // namespace sluice::api::resident
