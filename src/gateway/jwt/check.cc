#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gateway/jwt/options.h"
#include "gateway/origins.h"
#include "gateway/policy_checks.h"

namespace sluice::gateway::jwt {
namespace {

void check_from(const Options& options, PolicyChecks& checks) {
  if (options.from.empty() && !checks.has_errors()) {
    checks.complain(checks.name.position, fmt::format("[policy.{}] takes tokens from nowhere", checks.name.value),
                    "leave \"from\" out for \"header.authorization\"");
  }
  bool has_cookie = false;
  std::vector<Place> seen;
  for (const auto& one : options.from) {
    auto place = Place::parse(one.value);
    if (!place) continue;  // reported when it was read
    has_cookie |= place->in == Place::In::cookie;
    if (std::ranges::find(seen, *place) != seen.end()) checks.complain(one.position, "this place is there twice");
    seen.push_back(std::move(*place));
  }
  check_cookie_origins(options.origins, "token", has_cookie, checks);
}

}  // namespace

void Options::check(PolicyChecks& checks) const {
  const std::optional<Located<std::string>>* first = nullptr;
  const std::pair<const char*, const std::optional<Located<std::string>>*> keys[] = {{"secret", &secret},
                                                                                     {"secret_file", &secret_file},
                                                                                     {"public_key", &public_key},
                                                                                     {"jwks", &jwks},
                                                                                     {"jwks_url", &jwks_url}};
  for (const auto& [name, key] : keys) {
    if (!*key) continue;
    // The error is not reported at the key's position, because an error prints its line, which may show a secret.
    if (first != nullptr) {
      checks.complain(checks.name.position, fmt::format("[policy.{}] has more than one of \"secret\", \"secret_file\", "
                                                        "\"public_key\", \"jwks\" and \"jwks_url\"",
                                                        checks.name.value));
      break;
    }
    first = key;
  }
  if (jwks && (jwks->value.starts_with("https://") || jwks->value.starts_with("http://"))) {
    checks.complain(jwks->position, "\"jwks\" is the path of a file", "write \"jwks_url\"");
  }
  const std::pair<const char*, Position> of_url[] = {{"jwks_every", jwks_every.position},
                                                     {"jwks_timeout", jwks_timeout.position},
                                                     {"stale_after", stale_after.position},
                                                     {"jwks_ca", jwks_ca.position}};
  for (const auto& [name, position] : of_url) {
    if (position.line == 0 || jwks_url) continue;
    checks.complain(position, fmt::format("[policy.{}] fetches no keys", checks.name.value),
                    fmt::format("\"{}\" is for \"jwks_url\"", name));
  }
  check_from(*this, checks);
  if (revoked) checks.check_table(*revoked, "the column with the \"jti\" of revoked tokens");
  for (const RequireOptions& required : require) {
    if (required.any.empty() && required.all.empty() && !checks.has_errors()) {
      checks.complain(
          required.position,
          fmt::format("[policy.{}] requires no words of the claim \"{}\"", checks.name.value, required.claim.value),
          "add \"any\" or \"all\"");
    }
    for (const auto* words : {&required.any, &required.all}) {
      for (const auto& word : *words) {
        const bool is_word = Options::check_realm(word.value).empty() && !word.value.contains(' ');
        if (required.is_scope() && !is_word) {
          checks.complain(word.position, "a scope is printable ASCII without spaces, quotes and backslashes");
        }
      }
    }
  }
  if (first != nullptr && by_login) {
    checks.complain(checks.name.position,
                    fmt::format("[policy.{}] has a key of its own, but takes the tokens of [login]", checks.name.value),
                    "leave its key out, or let [login] name another policy");
  }
  if (first == nullptr && !by_login && !checks.has_errors()) {  // after other errors, the key may be present but wrong
    checks.complain(checks.name.position,
                    fmt::format("[policy.{}] has no key to verify tokens with", checks.name.value),
                    "add \"secret\", \"secret_file\", \"public_key\", \"jwks\" or \"jwks_url\"");
  }
}

}  // namespace sluice::gateway::jwt
