#include <string>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "gateway/apikey/options.h"
#include "gateway/policy_checks.h"

namespace sluice::gateway::apikey {

void Options::check(PolicyChecks& checks) const {
  int places = header.position.line != 0 ? 1 : 0;
  places += (query ? 1 : 0) + (cookie ? 1 : 0);
  if (places > 1) {
    checks.complain(
        checks.name.position,
        fmt::format("[policy.{}] has more than one of \"header\", \"query\" and \"cookie\"", checks.name.value));
  }
  check_cookie_origins(origins, "key", cookie.has_value(), checks);
  if (!keys.empty() && table) {
    checks.complain(table->position, fmt::format("[policy.{}] has \"keys\" as well", checks.name.value));
  } else if (keys.empty() && !table && !checks.has_errors()) {
    checks.complain(checks.name.position, fmt::format("[policy.{}] has no keys", checks.name.value),
                    "add \"keys\" or \"table\"");
  }
  std::unordered_map<Digest, std::string_view, DigestHash> names;
  for (const auto& key : keys) {
    // The error is not reported at the value's position, because an error prints its line and the value may be a
    // secret.
    if (key.value.value.empty()) continue;  // reported when it was read
    const auto digest = parse_key(key.value.value);
    if (!digest) {
      checks.complain(checks.name.position, fmt::format("the key of \"{}\" {}", key.name.value, digest.error()));
      continue;
    }
    const auto [same, is_new] = names.emplace(*digest, key.name.value);
    if (!is_new) {
      checks.complain(checks.name.position,
                      fmt::format("\"{}\" and \"{}\" have the same key", same->second, key.name.value));
    }
  }
  if (table) checks.check_table(*table, "the column with the digests");
}

}  // namespace sluice::gateway::apikey
