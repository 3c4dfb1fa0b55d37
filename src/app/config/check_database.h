#pragma once

#include "app/config/complain.h"
#include "sql/options.h"

namespace sluice::app::config {

// [database.NAME]: keys that need each other, or that are the other database's.
void check_database(const sql::DatabaseOptions& database, const Complain& complain);

}  // namespace sluice::app::config
