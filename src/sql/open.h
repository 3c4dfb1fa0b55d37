#pragma once

#include <memory>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "net/resolver.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::sql {

// What all cores share of a database: SQLite's writer, or who resolves the host name of PostgreSQL's server. Made
// before the first of them, it outlives them all.
class SharedDatabase {
 public:
  virtual ~SharedDatabase() = default;
};

// For a SQLite file that is written to, and for PostgreSQL. `resolver` outlives it; null where a host name need not be
// resolved again after open_database(), and then PostgreSQL shares nothing: null.
[[nodiscard]] Result<std::unique_ptr<SharedDatabase>> open_shared(const DatabaseOptions& options,
                                                                  net::Resolver* resolver = nullptr);

// One core's access to the database that the URL names. A file that cannot be opened, or a URL that cannot be used, is
// an error now; a server that cannot be reached is one of each query, until it can. All that is given outlives it.
// `shared`: may be null for PostgreSQL, and for a SQLite file that is only read.
[[nodiscard]] Result<std::unique_ptr<Database>> open_database(const DatabaseOptions& options, core::Reactor& reactor,
                                                              core::Mailbox& mailbox, core::BlockingPool& threads,
                                                              SharedDatabase* shared = nullptr);

}  // namespace sluice::sql
