#include "app/opened_database.h"

#include <utility>

namespace sluice::app {

sql::Result<OpenedDatabase> open_database(Loop& loop, const Options& options,
                                          const Named<sql::DatabaseOptions>& database) {
  OpenedDatabase opened;
  if (options.writes_to(database.name.value)) {
    auto shared = sql::open_shared(database.value);
    if (!shared) return std::unexpected(std::move(shared.error()));
    opened.shared = std::move(*shared);
  }
  auto own = sql::open_database(database.value, *loop.reactor, loop.mailbox, loop.threads, opened.shared.get());
  if (!own) return std::unexpected(std::move(own.error()));
  opened.database = std::move(*own);
  return opened;
}

std::string describe(const sql::Error& error) {
  return error.sqlstate.empty() ? error.message : error.message + " (" + error.sqlstate + ")";
}

}  // namespace sluice::app
