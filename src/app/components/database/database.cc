#include "app/components/database/database.h"

#include <stdexcept>

#include "sql/shapes.h"

namespace sluice::app {

std::shared_ptr<sql::Database> DatabaseComponent::make(const core::Here& here, const Parts&) const {
  auto opened = sql::open_database(options.value, here.reactor, here.mailbox, here.threads, shared.get());
  if (!opened) throw std::runtime_error("database \"" + options.name.value + "\": " + opened.error().message);
  (*opened)->share_ids(ids);
  (*opened)->shapes().resize(options.value.statements / here.mesh.size());
  struct Owner {
    std::shared_ptr<const DatabaseComponent> component;  // the connections use its shared half
    std::unique_ptr<sql::Database> database;
  };
  auto owner = std::make_shared<Owner>(shared_from_this(), std::move(*opened));
  sql::Database* const made = owner->database.get();
  return {std::move(owner), made};
}

Readings DatabaseComponent::readings_of(sql::Database& database) const {
  Readings all;
  for (Reading& reading : database.readings()) {
    const bool is_pool = reading.name.starts_with("db_client_connection_");  // named by OpenTelemetry
    append(all, {std::move(reading)},
           label(is_pool ? "db_client_connection_pool_name" : "database", options.name.value));
  }
  return all;
}

core::Task<runtime::Readiness> DatabaseComponent::readiness_of(sql::Database& database, Instant deadline) const {
  if (co_await database.ping(deadline)) co_return runtime::Readiness{};
  co_return runtime::Readiness{false, "The database \"" + options.name.value + "\" does not answer."};
}

}  // namespace sluice::app
