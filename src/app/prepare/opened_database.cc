#include "app/prepare/opened_database.h"

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

std::optional<std::string> open_shared_parts(const Plan& plan, std::optional<net::Resolver>& resolver) {
  for (const auto& component : plan.all<UpstreamComponent>()) {
    const auto& upstream = component->shared;
    if (upstream->resolver != nullptr || !upstream->needs_resolver()) continue;
    if (!resolver) resolver.emplace();
    upstream->resolver = &*resolver;
  }
  for (const auto& component : plan.all<KeySourceComponent>()) {
    const auto& source = component->shared;
    if (source->resolver != nullptr || !source->needs_resolver()) continue;
    if (!resolver) resolver.emplace();
    source->resolver = &*resolver;
  }
  for (const auto& revocations : plan.revocations) {
    if (auto held = revocations->hold(); !held) return std::move(held.error());
  }
  for (std::size_t i = 0; i < plan.databases.size(); ++i) {
    const auto& [name, options] = plan.options.databases[i];
    Plan::Database& database = *plan.databases[i];
    if (database.shared || (options.is_sqlite() && !database.writes)) continue;
    if (!options.is_sqlite() && !resolver) resolver.emplace();
    auto opened = sql::open_shared(options, resolver ? &*resolver : nullptr, database.observers);
    if (!opened) return "database \"" + name.value + "\": " + opened.error().message;
    database.shared = std::move(*opened);
  }
  return std::nullopt;
}

std::string describe(const sql::Error& error) {
  return error.sqlstate.empty() ? error.message : error.message + " (" + error.sqlstate + ")";
}

}  // namespace sluice::app
