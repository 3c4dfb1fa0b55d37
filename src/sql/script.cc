#include "sql/script.h"

#include <string>

#include "sql/postgres/script.h"
#include "sql/postgres/url.h"
#include "sql/sqlite/script.h"

namespace sluice::sql {

core::Task<Result<void>> run_script(const DatabaseOptions& options, core::Reactor& reactor, std::string_view script,
                                    Instant deadline) {
  if (options.is_sqlite()) {
    const std::string path = options.url.value.substr(std::string_view("sqlite:").size());
    co_return sqlite::run_script(path, script, [&reactor, deadline] { return reactor.clock() >= deadline; });
  }
  const auto parsed = postgres::options_from_url(options.url.value, options.folder);
  if (!parsed) co_return std::unexpected(Error{Failure::statement, {}, parsed.error(), 0});
  co_return co_await postgres::run_script(*parsed, reactor, script, deadline);
}

}  // namespace sluice::sql
