#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gateway/authrequest/options.h"
#include "gateway/headers/policy.h"
#include "gateway/policy_checks.h"

namespace sluice::gateway::authrequest {

void Options::check(PolicyChecks& checks) const {
  if (!upstream.value.empty()) checks.check_upstream(upstream);
  for (const auto& name : copy) {
    if (!headers::may_change_in_request(name.value)) checks.complain(name.position, "no policy changes this field");
  }
}

}  // namespace sluice::gateway::authrequest
