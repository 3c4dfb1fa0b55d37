#pragma once

#include <cstdint>
#include <vector>

#include "api/resident/query.h"
#include "api/resident/table.h"

namespace sluice::api::resident {

// What a query finds: rows in the order in which they are answered, offset and limit applied.
struct Selection {
  std::uint64_t total = 0;  // without offset and limit
  bool is_range = false;    // rows from `first` up to `last`, all of them in the order of the table
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::vector<std::uint32_t> rows;  // else

  // Precondition: index < size().
  [[nodiscard]] std::uint32_t at(std::uint64_t index) const {
    return is_range ? first + static_cast<std::uint32_t>(index) : rows[index];
  }
  [[nodiscard]] std::uint64_t size() const { return is_range ? last - first : rows.size(); }
};

[[nodiscard]] Selection select(const Table& table, const Query& query);
// How many rows select() may have to look at: whether that is to be done by a thread of the pool.
[[nodiscard]] std::uint64_t effort_of(const Table& table, const Query& query);

}  // namespace sluice::api::resident
