#pragma once

#include "app/config/checks.h"

namespace sluice::app::config {

// Checks all [[upstream]].
void check_upstreams(const Checks& checks);

}  // namespace sluice::app::config
