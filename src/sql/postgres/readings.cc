#include "sql/postgres/database.h"

namespace sluice::sql::postgres {

Readings Database::readings() {
  const Counters& counters = pool_.counters();
  const std::size_t idle = pool_.idle_connections();
  const auto connections = [](std::size_t count, std::string_view state) {
    return gauge("db_client_connection_count", "Connections to the database.", count,
                 label("db_client_connection_state", state));
  };
  const auto requests = [](std::uint64_t count, std::string_view connection) {
    return counter("sluice_postgres_requests_total", "Statements sent.", count, label("connection", connection));
  };
  return {
      connections(idle, "idle"),
      connections(pool_.open_connections() - idle, "used"),
      gauge("db_client_connection_max", "Connections that may be open.", pool_.options().pool_size),
      gauge("db_client_connection_pending_requests", "Requests that wait for a connection.", pool_.waiting()),
      requests(counters.shared_requests, "shared"),
      requests(counters.exclusive_requests, "exclusive"),
      requests(counters.parallel_requests, "several"),
      counter("sluice_postgres_helpers_total", "Connections that helped to read an answer in parallel.",
              counters.parallel_helpers),
      counter("sluice_postgres_connections_opened_total", "Connections opened.", counters.opened),
      counter("sluice_postgres_connections_failed_total", "Connections that could not be opened.",
              counters.open_failures),
      counter("sluice_postgres_connections_lost_total",
              "Connections that have ended, those that nobody used any more too.", counters.lost),
      counter("sluice_postgres_unavailable_total", "Requests that got no connection.", counters.unavailable),
      counter("sluice_postgres_retries_total", "Requests repeated after their connection was lost.", counters.retries),
      counter("sluice_postgres_reprepared_total", "Requests repeated because the server had given up their plan.",
              counters.reprepared),
      counter("sluice_postgres_overflows_total", "Answers too large to share a connection, asked for again.",
              counters.overflows),
      counter("sluice_postgres_cancels_total", "Statements cancelled at the server.", counters.cancels),
  };
}

}  // namespace sluice::sql::postgres
