#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gateway/basic/options.h"
#include "gateway/basic/password.h"
#include "gateway/policy_checks.h"

namespace sluice::gateway::basic {

std::string Options::add_users(std::string_view text) {
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t colon = line.find(':');
    const auto wrong = [&](std::string_view what) { return fmt::format("line {}: {}", number, what); };
    if (colon == std::string_view::npos || colon == 0) return wrong("a line is NAME:HASH");
    const std::string name(line.substr(0, colon));
    const std::string hash(line.substr(colon + 1));
    if (const std::string why = check_hash(hash); !why.empty()) {
      return wrong(fmt::format("the hash of \"{}\" {}", name, why));
    }
    const bool is_known = std::ranges::any_of(users, [&](const auto& user) { return user.name.value == name; });
    if (is_known) return wrong(fmt::format("\"{}\" is there twice", name));
    users.push_back({.name = {name}, .value = {.hash = hash}});
  }
  return users.empty() ? "it has no users" : "";
}

void Options::check(PolicyChecks& checks) const {
  if (users.empty() && !file && !checks.has_errors()) {
    checks.complain(checks.name.position, fmt::format("[policy.{}] has no users", checks.name.value),
                    "add users = { NAME = \"HASH\" }; `sluice hash-password` prints a hash. Or add file = \"FILE\"");
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
