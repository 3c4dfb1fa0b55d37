#pragma once

#include "api/resident/options.h"
#include "app/config/complain.h"
#include "app/options.h"

namespace sluice::app::config {

// Checks the combination of a [[resident]]'s keys. Its database has been chosen, if there is one to choose.
void check_resident(const Options& options, const api::resident::ResidentOptions& resident, const Complain& complain);

}  // namespace sluice::app::config
