// Step 6: Sluice's library: blocks of rows are views into the bytes that the socket received, and the encoder turns a
// whole block into text. Rows and fields need no allocation.
#include <cstdio>

#include "core/run_to_end.h"
#include "exports.h"
#include "sql/encode/encoder.h"
#include "sql/postgres/database.h"
#include "sql/postgres/url.h"

namespace {

namespace sql = sluice::sql;

sluice::core::Task<sql::Result<void>> write(sql::Database& database, exports::Arguments arguments) {
  const auto statement = co_await database.prepare(arguments.sql, {});
  if (!statement) co_return std::unexpected(statement.error());
  const auto cursor = co_await database.query(*statement, {}, {});
  if (!cursor) co_return std::unexpected(cursor.error());
  const auto format = arguments.format == exports::Format::csv ? sql::Format::csv : sql::Format::csj;
  sql::Encoder encoder(format, statement->columns);
  sluice::Buffer out;
  encoder.begin(out);
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    encoder.rows(*block, out);
    if (!last && out.size() < exports::full) continue;
    exports::write_all({out.data(), out.size()});
    out.clear();
  }
  co_return sql::Result<void>();
}

}  // namespace

int main(int count, char** values) {
  const exports::Arguments arguments = exports::arguments(count, values);
  const auto options = sql::postgres::options_from_url(arguments.connection);
  if (!options) return std::fprintf(stderr, "%s\n", options.error().c_str()), 1;
  const auto reactor = sluice::core::make_epoll_reactor();
  sql::postgres::Database database(*reactor, *options);
  const auto done = sluice::core::run_to_end(*reactor, nullptr, write(database, arguments));
  if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
