#pragma once

#include "app/config/complain.h"
#include "app/config/document.h"
#include "sql/options.h"

namespace sluice::app::config {

// [database.NAME]: keys that need each other, or that are the other database's. Fills in what comes from the
// environment.
void check_database(sql::DatabaseOptions& database, const Environment& environment, const Complain& complain);

}  // namespace sluice::app::config
