#include "sql/sqlite/database.h"

namespace sluice::sql {

Readings SqliteDatabase::readings() {
  return {
      counter("sluice_sqlite_look_ups_total", "Statements answered on the core.", counters_.look_ups),
      counter("sluice_sqlite_scans_total", "Statements begun in the blocking pool.", counters_.scans),
      counter("sluice_sqlite_overflows_total", "Look-ups that were too large for the core.", counters_.overflows),
      counter("sluice_sqlite_transactions_total", "Read transactions that look-ups have shared.",
              counters_.transactions),
      gauge("sluice_sqlite_pending_scans", "Scans that wait for a connection.", scans_->waiting()),
  };
}

}  // namespace sluice::sql
