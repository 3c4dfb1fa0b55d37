#pragma once

#include <memory>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::sql {

// What all cores share of a database: SQLite's writer. Made before the first of them, it outlives them all.
class SharedDatabase {
 public:
  virtual ~SharedDatabase() = default;
};

// For a database that is written to. PostgreSQL shares nothing: null.
[[nodiscard]] Result<std::unique_ptr<SharedDatabase>> open_shared(const DatabaseOptions& options);

// One core's access to the database that the URL names. A file that cannot be opened, or a URL that cannot be used, is
// an error now; a server that cannot be reached is one of each query, until it can. All that is given outlives it.
// `shared`: null for a database that is only read.
[[nodiscard]] Result<std::unique_ptr<Database>> open_database(const DatabaseOptions& options, core::Reactor& reactor,
                                                              core::Mailbox& mailbox, core::BlockingPool& threads,
                                                              SharedDatabase* shared = nullptr);

}  // namespace sluice::sql
