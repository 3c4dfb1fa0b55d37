#pragma once

#include <cstdint>
#include <memory>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/options.h"

// Detects commits to a database without reading its data.
namespace sluice::sql {

class ChangeProbe {
 public:
  virtual ~ChangeProbe() = default;
  // Returns a number that changes whenever this process or another has committed something. Numbers of different probes
  // are not comparable. A query that begins after this call returns sees every commit that the number reflects. Only
  // one call may run at a time; it occupies a thread of `threads`.
  [[nodiscard]] virtual core::Task<Result<std::uint64_t>> version(core::BlockingPool& threads,
                                                                  core::Mailbox& mailbox) = 0;
};

// Null if the database does not support this (PostgreSQL).
[[nodiscard]] Result<std::unique_ptr<ChangeProbe>> open_change_probe(const DatabaseOptions& options);

}  // namespace sluice::sql
