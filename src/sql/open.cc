#include "sql/open.h"

#include <chrono>

#include "sql/change_probe.h"
#include "sql/open_shared.h"
#include "sql/postgres/database.h"
#include "sql/postgres/url.h"
#include "sql/sqlite/data_version.h"
#include "sql/sqlite/database.h"

namespace sluice::sql {
namespace {

std::uint32_t milliseconds(Duration duration) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

SqliteOptions sqlite_options(const DatabaseOptions& options) {
  SqliteOptions sqlite;
  sqlite.path = options.url.value.substr(std::string_view("sqlite:").size());
  sqlite.untrusted = options.untrusted.value;
  sqlite.scan_connections = options.pool;
  sqlite.scan_wait_ms = milliseconds(options.wait);
  sqlite.statement_timeout_ms = milliseconds(options.statement_timeout);
  sqlite.row_bytes = static_cast<std::uint32_t>(options.row_limit.bytes);
  return sqlite;
}

}  // namespace

Result<std::unique_ptr<SharedDatabase>> open_shared(const DatabaseOptions& options, net::Resolver* resolver,
                                                    std::shared_ptr<CommitObservers> observers) {
  if (!options.is_sqlite()) return resolver != nullptr ? std::make_unique<SharedPostgres>(*resolver) : nullptr;
  if (!observers) observers = std::make_shared<CommitObservers>();
  auto writer = SqliteWriter::open(sqlite_options(options), std::move(observers));
  if (!writer) return std::unexpected(std::move(writer.error()));
  return std::make_unique<SharedSqlite>(std::move(*writer));
}

Result<std::unique_ptr<Database>> open_database(const DatabaseOptions& options, core::Reactor& reactor,
                                                core::Mailbox& mailbox, core::BlockingPool& threads,
                                                SharedDatabase* shared) {
  if (options.is_sqlite()) {
    SqliteWriter* const writer = shared != nullptr ? static_cast<SharedSqlite*>(shared)->writer.get() : nullptr;
    auto opened = SqliteDatabase::open(sqlite_options(options), reactor, mailbox, threads, writer);
    if (!opened) return std::unexpected(std::move(opened.error()));
    return std::unique_ptr<Database>(std::move(*opened));
  }
  auto parsed = postgres::options_from_url(options.url.value, options.folder);
  if (!parsed) return std::unexpected(Error{Failure::statement, {}, parsed.error(), 0});
  postgres::Options postgres = std::move(*parsed);
  if (shared != nullptr) postgres.resolver = &static_cast<SharedPostgres*>(shared)->resolver;
  postgres.mailbox = &mailbox;
  postgres.pool_size = options.pool;
  postgres.wait_ms = milliseconds(options.wait);
  postgres.statement_timeout_ms = milliseconds(options.statement_timeout);
  postgres.max_row_bytes = options.row_limit.bytes;
  postgres.prepared = options.prepared;
  postgres.pipeline = options.pipeline.value;
  postgres.batch = options.batch.value;
  return std::unique_ptr<Database>(std::make_unique<postgres::Database>(reactor, std::move(postgres)));
}

Result<std::unique_ptr<ChangeProbe>> open_change_probe(const DatabaseOptions& options) {
  if (!options.is_sqlite()) return nullptr;
  auto opened = DataVersion::open(sqlite_options(options));
  if (!opened) return std::unexpected(std::move(opened.error()));
  return std::move(*opened);
}

}  // namespace sluice::sql
