// Writes the rows of a query to standard output as CSJ: a line of column names, then a line of JSON values per row.
//   stream_csj postgres://user@host/films "SELECT id, title FROM films"
#include <cstdio>

#include "core/run_to_end.h"
#include "sql/encode/encoder.h"
#include "sql/postgres/database.h"
#include "sql/postgres/url.h"

namespace sql = sluice::sql;

sluice::core::Task<sql::Result<void>> stream(sql::Database& database, const char* query) {
  const auto statement = co_await database.prepare(query, {});
  if (!statement) co_return std::unexpected(statement.error());
  const auto cursor = co_await database.query(*statement, {}, {});
  if (!cursor) co_return std::unexpected(cursor.error());
  sql::Encoder encoder(sql::Format::csj, statement->columns);
  sluice::Buffer out;
  encoder.begin(out);
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(block.error());
    last = block->last;
    encoder.rows(*block, out);
    std::fwrite(out.data(), 1, out.size(), stdout);
    out.clear();
  }
  co_return sql::Result<void>();
}

int main(int count, char** arguments) {
  const auto options = sql::postgres::options_from_url(count == 3 ? arguments[1] : "");
  if (!options) return std::fprintf(stderr, "%s\n", options.error().c_str()), 1;
  const auto reactor = sluice::core::make_epoll_reactor();
  sql::postgres::Database database(*reactor, *options);
  const auto done = sluice::core::run_to_end(*reactor, nullptr, stream(database, arguments[2]));
  if (!done) std::fprintf(stderr, "%s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
