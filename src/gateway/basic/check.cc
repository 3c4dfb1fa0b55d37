#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gateway/basic/options.h"
#include "gateway/basic/password.h"
#include "gateway/policy_checks.h"

namespace sluice::gateway::basic {

void Options::check(PolicyChecks& checks) const {
  if (users.empty() && !checks.has_errors()) {
    checks.complain(checks.name.position, fmt::format("[policy.{}] has no users", checks.name.value),
                    "add users = { NAME = \"HASH\" }; `sluice hash-password` prints a hash");
  }
  for (const auto& user : users) {
    if (user.value.hash.empty()) continue;  // reported when it was read
    const std::string wrong = check_hash(user.value.hash);
    // The error is not reported at the value's position, because an error prints its line and the value may be a
    // password.
    if (!wrong.empty())
      checks.complain(checks.name.position, fmt::format("the hash of \"{}\" {}", user.name.value, wrong));
    if (user.name.value.contains(':')) checks.complain(user.name.position, "the name of a user has no \":\"");
  }
}

}  // namespace sluice::gateway::basic
