#pragma once

#include <memory>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "sql/database.h"
#include "sql/options.h"

namespace sluice::sql {

// One core's access to the database that the URL names. A file that cannot be opened, or a URL that cannot be used, is
// an error now; a server that cannot be reached is one of each query, until it can. All that is given outlives it.
[[nodiscard]] Result<std::unique_ptr<Database>> open_database(const DatabaseOptions& options, core::Reactor& reactor,
                                                              core::Mailbox& mailbox, core::BlockingPool& threads);

}  // namespace sluice::sql
