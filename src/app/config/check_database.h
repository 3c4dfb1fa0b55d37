#pragma once

#include "app/config/complain.h"
#include "app/config/document.h"
#include "sql/options.h"

namespace sluice::app::config {

// Checks [database.NAME]: keys that need each other, and keys for the other kind of database. Sets the values that come
// from the environment.
void check_database(sql::DatabaseOptions& database, const Environment& environment, const Complain& complain);

}  // namespace sluice::app::config
