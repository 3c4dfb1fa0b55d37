#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gateway/cors/options.h"
#include "gateway/policy_checks.h"

namespace sluice::gateway::cors {

void Options::check(PolicyChecks& checks) const {
  const auto any = std::ranges::find(origins, "*", &Located<std::string>::value);
  if (any != origins.end() && credentials) {
    checks.complain(any->position,
                    fmt::format("[policy.{}] has \"credentials\", with which browsers do not accept the origin \"*\"",
                                checks.name.value),
                    "name the origins");
  }
  for (const auto& header : checks.server_headers()) {
    if (!http::same_name(header.value.substr(0, 15), "access-control-")) continue;
    checks.complain(header.position, fmt::format("[policy.{}] gives answers this field too", checks.name.value),
                    "leave it to the policy");
  }
}

}  // namespace sluice::gateway::cors
