#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "gateway/policy_checks.h"
#include "gateway/query/options.h"
#include "http/fields.h"

namespace sluice::gateway::query {

void Options::check(PolicyChecks& checks) const {
  if (set.empty() && add.empty() && remove.empty() && !checks.has_errors()) {
    checks.complain(checks.name.position, fmt::format("[policy.{}] changes nothing", checks.name.value),
                    "add \"set\", \"add\" or \"remove\"");
  }
  std::vector<std::string_view> replaced;
  const auto check = [&](const Located<std::string>& name, bool replaces) {
    const auto same = [&](std::string_view other) { return http::same_name(other, name.value); };
    if (name.value.empty()) {
      checks.complain(name.position, "the name of a parameter is not empty");
    } else if (replaces && std::ranges::any_of(replaced, same)) {
      checks.complain(name.position, "this parameter comes twice");
    } else if (replaces) {
      replaced.push_back(name.value);
    }
  };
  for (const auto& parameter : set) check(parameter.name, true);
  for (const auto& name : remove) check(name, true);
  for (const auto& parameter : add) check(parameter.name, false);
}

}  // namespace sluice::gateway::query
