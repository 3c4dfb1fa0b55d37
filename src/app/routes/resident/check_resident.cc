#include "app/routes/resident/check_resident.h"

#include <fmt/format.h>

#include "app/config/text.h"
#include "app/routes/endpoint/check_endpoint.h"

namespace sluice::app::config {
namespace {

using api::resident::RefreshOptions;
using api::resident::ResidentOptions;

void check_changes(const ResidentOptions& resident, const RefreshOptions& refresh, const Complain& complain) {
  if (refresh.changes.value.empty()) {
    for (const auto* option : {&refresh.version, &refresh.deleted}) {
      if (!option->value.empty()) complain(option->position, "it has no effect without \"changes\"");
    }
    return;
  }
  if (refresh.version.value.empty()) {
    complain(refresh.changes.position, "\"changes\" needs a \"version\": the column that says where they begin");
  }
  if (resident.key.value.empty()) {
    complain(refresh.changes.position, "\"changes\" needs the table's \"key\", which finds the rows that change");
  }
}

// `database`: null if no database has the configured name.
void check_refresh(const ResidentOptions& resident, const RefreshOptions& refresh, const sql::DatabaseOptions* database,
                   const Complain& complain) {
  const Duration every = refresh.every.value;
  if (every > Duration{} && every < RefreshOptions::least_every) {
    complain(refresh.every.position,
             fmt::format("\"every\" is 0, or at least {}", format_duration(RefreshOptions::least_every)));
  }
  if (every == Duration{} && refresh.notify.value.empty()) {
    complain(refresh.position, "\"refresh\" says neither \"every\" nor \"notify\"");
  }
  // If both are given, SQLite uses "every".
  if (!refresh.notify.value.empty() && every == Duration{} && database != nullptr && database->is_sqlite()) {
    complain(refresh.notify.position, "\"notify\" is for PostgreSQL, and this database is SQLite",
             "add every = \"1s\"");
  }
  check_changes(resident, refresh, complain);
  if (refresh.full.position.line != 0 && refresh.changes.value.empty() && database != nullptr &&
      !database->is_sqlite()) {
    complain(refresh.full.position, "\"full\" is for \"changes\" and for SQLite; here all loads are full");
  }
}

}  // namespace

void check_resident(const Options& options, const ResidentOptions& resident, const Complain& complain) {
  if (resident.refresh) {
    check_refresh(resident, *resident.refresh, database_of(options, resident.database.value), complain);
  }
  if (resident.stale_after.value > Duration{} && (!resident.refresh || resident.refresh->every.value == Duration{})) {
    complain(resident.stale_after.position, "without refresh.every the table would stay too old");
  } else if (resident.stale_after.value > Duration{} && resident.stale_after.value <= resident.refresh->every.value) {
    complain(resident.stale_after.position,
             fmt::format("the table would be too old before its next refresh: refresh.every is {}",
                         format_duration(resident.refresh->every.value)));
  }
}

}  // namespace sluice::app::config
