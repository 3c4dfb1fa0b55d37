#include "sql/sqlite/database.h"

namespace sluice::sql {

std::vector<Reading> SqliteDatabase::readings() {
  using enum Reading::Kind;
  return {
      {"sluice_sqlite_look_ups_total", {}, "Statements answered on the core.", counter, counters_.look_ups},
      {"sluice_sqlite_scans_total", {}, "Statements begun in the blocking pool.", counter, counters_.scans},
      {"sluice_sqlite_overflows_total", {}, "Look-ups that were too large for the core.", counter, counters_.overflows},
      {"sluice_sqlite_transactions_total",
       {},
       "Read transactions that look-ups have shared.",
       counter,
       counters_.transactions},
      {"sluice_sqlite_pending_scans", {}, "Scans that wait for a connection.", gauge, scans_->waiting()},
  };
}

}  // namespace sluice::sql
