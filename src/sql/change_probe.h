#pragma once

#include <cstdint>
#include <memory>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/task.h"
#include "sql/database.h"
#include "sql/options.h"

// Whether anything has been committed, asked without reading any of it.
namespace sluice::sql {

class ChangeProbe {
 public:
  virtual ~ChangeProbe() = default;
  // Another number than before when something has been committed in between, by this process or another; numbers of
  // two probes do not compare. A query that begins after the answer reads all that the number counts. One call at a
  // time; it waits on a thread.
  [[nodiscard]] virtual core::Task<Result<std::uint64_t>> version(core::BlockingPool& threads,
                                                                  core::Mailbox& mailbox) = 0;
};

// Null: the database cannot say (PostgreSQL).
[[nodiscard]] Result<std::unique_ptr<ChangeProbe>> open_change_probe(const DatabaseOptions& options);

}  // namespace sluice::sql
