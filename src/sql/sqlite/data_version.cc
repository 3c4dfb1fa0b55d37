#include "sql/sqlite/data_version.h"

#include <utility>

#include <sqlite3.h>

namespace sluice::sql {
namespace {

Result<std::uint64_t> ask(sqlite::Connection& connection) {
  sqlite3_stmt* const statement = connection.prepare_own("PRAGMA data_version");
  if (statement == nullptr) return std::unexpected(connection.error(sqlite3_errcode(connection.get())));
  Result<std::uint64_t> result;
  if (const int code = sqlite3_step(statement); code == SQLITE_ROW) {
    result = static_cast<std::uint64_t>(sqlite3_column_int64(statement, 0));
  } else {
    result = std::unexpected(connection.error(code));
  }
  sqlite3_finalize(statement);
  return result;
}

}  // namespace

Result<std::unique_ptr<DataVersion>> DataVersion::open(const SqliteOptions& options) {
  auto opened = sqlite::Connection::open(options, sqlite::Purpose::scan);
  if (!opened) return std::unexpected(std::move(opened.error()));
  return std::unique_ptr<DataVersion>(new DataVersion(std::move(*opened)));
}

core::Task<Result<std::uint64_t>> DataVersion::version(core::BlockingPool& threads, core::Mailbox& mailbox) {
  auto work = [connection = connection_] { return ask(*connection); };
  auto asked = co_await threads.run(mailbox, std::move(work));
  if (!asked) co_return std::unexpected(Error{Failure::unavailable, {}, "the server is busy"});
  co_return std::move(*asked);
}

}  // namespace sluice::sql
