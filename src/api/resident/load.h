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
  bool may_pass = false;  // the cause may be temporary, such as a database that cannot be reached
};

struct Loaded {
  std::shared_ptr<const Table> table;
  Since since;  // known only if the plan has `changes`
};

// Runs the query and builds a version of the table from its rows. This core only reads the rows, block by block; the
// pool's threads do the rest. All arguments must outlive the task.
[[nodiscard]] core::Task<std::expected<Loaded, LoadError>> load(const Plan& plan, sql::Database& database,
                                                                core::Reactor& reactor, core::Mailbox& mailbox,
                                                                core::BlockingPool& threads);

// The same, but from the previous version and the rows that have changed since. Returns the previous version itself if
// nothing has changed. Precondition: plan.changes and since.known().
[[nodiscard]] core::Task<std::expected<Loaded, LoadError>> load_changes(const Plan& plan,
                                                                        std::shared_ptr<const Table> old, Since since,
                                                                        sql::Database& database, core::Reactor& reactor,
                                                                        core::Mailbox& mailbox,
                                                                        core::BlockingPool& threads);

}  // namespace sluice::api::resident
