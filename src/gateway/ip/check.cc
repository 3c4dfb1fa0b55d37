#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gateway/ip/options.h"
#include "gateway/policy_checks.h"

namespace sluice::gateway::ip {

void Options::check(PolicyChecks& checks) const {
  if (!allow.empty() || !deny.empty() || checks.has_errors()) return;
  checks.complain(checks.name.position, fmt::format("[policy.{}] names no addresses", checks.name.value),
                  "add \"allow\" or \"deny\"");
}

}  // namespace sluice::gateway::ip
