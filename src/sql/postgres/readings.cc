#include "sql/postgres/database.h"

namespace sluice::sql::postgres {

std::vector<Reading> Database::readings() {
  using enum Reading::Kind;
  const Counters& counters = pool_.counters();
  const std::uint64_t open = pool_.open_connections();
  const std::uint64_t idle = pool_.idle_connections();
  return {
      {"db_client_connection_count", R"(db_client_connection_state="idle")", "Connections to the database.", gauge,
       idle},
      {"db_client_connection_count", R"(db_client_connection_state="used")", "Connections to the database.", gauge,
       open - idle},
      {"db_client_connection_max", {}, "Connections that may be open.", gauge, pool_.options().pool_size},
      {"db_client_connection_pending_requests", {}, "Requests that wait for a connection.", gauge, pool_.waiting()},
      {"sluice_postgres_requests_total", R"(connection="shared")", "Statements sent.", counter,
       counters.shared_requests},
      {"sluice_postgres_requests_total", R"(connection="exclusive")", "Statements sent.", counter,
       counters.exclusive_requests},
      {"sluice_postgres_requests_total", R"(connection="several")", "Statements sent.", counter,
       counters.parallel_requests},
      {"sluice_postgres_helpers_total",
       {},
       "Connections that helped to read an answer in parallel.",
       counter,
       counters.parallel_helpers},
      {"sluice_postgres_connections_opened_total", {}, "Connections opened.", counter, counters.opened},
      {"sluice_postgres_connections_failed_total",
       {},
       "Connections that could not be opened.",
       counter,
       counters.open_failures},
      {"sluice_postgres_connections_lost_total", {}, "Connections that ended by themselves.", counter, counters.lost},
      {"sluice_postgres_unavailable_total", {}, "Requests that got no connection.", counter, counters.unavailable},
      {"sluice_postgres_retries_total",
       {},
       "Requests repeated after their connection was lost.",
       counter,
       counters.retries},
      {"sluice_postgres_reprepared_total",
       {},
       "Requests repeated because the server had given up their plan.",
       counter,
       counters.reprepared},
      {"sluice_postgres_overflows_total",
       {},
       "Answers too large to share a connection, asked for again.",
       counter,
       counters.overflows},
      {"sluice_postgres_cancels_total", {}, "Statements cancelled at the server.", counter, counters.cancels},
  };
}

}  // namespace sluice::sql::postgres
