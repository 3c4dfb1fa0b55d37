#pragma once

#include <expected>
#include <memory>
#include <string>

#include "api/resident/resident.h"
#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "core/task.h"
#include "sql/database.h"

namespace sluice::api::resident {

// Why there is no new version: a sentence for the log.
struct LoadError {
  std::string text;
  bool may_pass = false;  // the database cannot be reached
};

// Runs the query and makes a version of its rows: encodes them here as they come, block by block, and indexes them on a
// thread of the pool. All outlive the task.
[[nodiscard]] core::Task<std::expected<std::shared_ptr<const Table>, LoadError>> load(const Plan& plan,
                                                                                      sql::Database& database,
                                                                                      core::Reactor& reactor,
                                                                                      core::Mailbox& mailbox,
                                                                                      core::BlockingPool& threads);

}  // namespace sluice::api::resident
