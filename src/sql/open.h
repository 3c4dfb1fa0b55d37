#pragma once

#include <memory>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "net/resolver.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::sql {

class CommitObservers;

// The part of a database that all cores share: SQLite's writer, or the resolver for the host name of PostgreSQL's
// server. It is created before the first Database and outlives all of them.
class SharedDatabase {
 public:
  virtual ~SharedDatabase() = default;
};

// Opens the shared part of a SQLite file that is written to, or of a PostgreSQL database. `resolver` outlives the
// result; null if a host name need not be resolved again after open_database(). Without `resolver`, PostgreSQL shares
// nothing, and the result is null. `observers` are notified of commits to the SQLite file, including those of other
// writers in this process; null if the file has no other writer.
[[nodiscard]] Result<std::unique_ptr<SharedDatabase>> open_shared(const DatabaseOptions& options,
                                                                  net::Resolver* resolver = nullptr,
                                                                  std::shared_ptr<CommitObservers> observers = nullptr);

// One core's access to the database that the URL names. A file that cannot be opened, or an invalid URL, is an error
// here. An unreachable server is not an error here: each query fails until the server can be reached. All arguments
// outlive the result. `shared` may be null for PostgreSQL, and for a SQLite file that is only read.
[[nodiscard]] Result<std::unique_ptr<Database>> open_database(const DatabaseOptions& options, core::Reactor& reactor,
                                                              core::Mailbox& mailbox, core::BlockingPool& threads,
                                                              SharedDatabase* shared = nullptr);

}  // namespace sluice::sql
