#pragma once

#include <cstdint>

#include "sql/database.h"

namespace sluice::sql {

// Decides whether a transaction that has failed is tried again. A statement that must be prepared anew, because tables
// or types have changed, is no conflict with another transaction, so it does not use up the retries for those.
class Retries {
 public:
  // Each connection of the pool may have plans of its own that are out of date.
  static constexpr std::uint32_t most_for_plans = 64;

  explicit Retries(std::uint32_t most) : most_(most) {}
  [[nodiscard]] bool again(const Error& error) {
    if (error.failure != Failure::conflict) return false;
    return error.of_plan ? ++plans_ <= most_for_plans : ++conflicts_ <= most_;
  }
  // Whether another conflict may be retried.
  [[nodiscard]] bool left() const { return conflicts_ < most_; }

 private:
  const std::uint32_t most_;
  std::uint32_t conflicts_ = 0;
  std::uint32_t plans_ = 0;
};

}  // namespace sluice::sql
