#pragma once

#include "app/config/checks.h"
#include "gateway/proxy/options.h"
#include "http/router.h"

namespace sluice::app::config {

// Checks the combination of a [[route]]'s keys.
void check_route(const Checks& checks, const gateway::RouteOptions& route, const http::Pattern& pattern);

}  // namespace sluice::app::config
