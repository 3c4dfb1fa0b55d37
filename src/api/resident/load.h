#pragma once

#include <expected>
#include <memory>
#include <string>

#include "api/resident/resident.h"
#include "api/resident/since.h"
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

struct Loaded {
  std::shared_ptr<const Table> table;
  Since since;  // where the plan says what the changes are
};

// Runs the query and makes a version of its rows, on threads of the pool; here they are only read, block by block. All
// outlive the task.
[[nodiscard]] core::Task<std::expected<Loaded, LoadError>> load(const Plan& plan, sql::Database& database,
                                                                core::Reactor& reactor, core::Mailbox& mailbox,
                                                                core::BlockingPool& threads);

// Likewise from the version before and what has changed since then; the version before itself, where nothing has.
// Precondition: plan.changes, since.known().
[[nodiscard]] core::Task<std::expected<Loaded, LoadError>> load_changes(const Plan& plan,
                                                                        std::shared_ptr<const Table> old, Since since,
                                                                        sql::Database& database, core::Reactor& reactor,
                                                                        core::Mailbox& mailbox,
                                                                        core::BlockingPool& threads);

}  // namespace sluice::api::resident
