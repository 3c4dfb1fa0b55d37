#pragma once

#include <string>
#include <vector>

#include "app/config/complain.h"
#include "app/options.h"
#include "http/router.h"

// Checks the combination of a [[route]]'s keys.
namespace sluice::app::config {

// Reports a name that is not the name of an [[upstream]].
void check_upstream(const Options& options, std::string_view name, Position position, const Complain& complain);

void check_route(const Options& options, const gateway::RouteOptions& route, const http::Pattern& pattern,
                 const Complain& complain);

// Whether two routes with the same path can match the same request, and neither of them is more specific.
[[nodiscard]] bool are_alike(const gateway::RouteOptions& one, const gateway::RouteOptions& other);

// One warning for each route `/a/{rest...}` to an upstream if requests for `/a` go to another route, and only one of
// the two routes checks who the client is.
[[nodiscard]] std::vector<std::string> warn_of_guards_beside(const Options& options);

}  // namespace sluice::app::config
