#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gateway/headers/options.h"
#include "gateway/headers/policy.h"
#include "gateway/policy_checks.h"

namespace sluice::gateway::headers {

namespace {

void check_changes(const Options& options, PolicyChecks& checks, const std::optional<ChangeOptions>& changes,
                   bool (*may_change)(std::string_view)) {
  if (!changes) return;
  std::vector<std::string_view> replaced;
  const auto check = [&](const Located<std::string>& name, bool replaces) {
    const auto same = [&](std::string_view other) { return http::same_name(other, name.value); };
    if (!http::is_token(name.value)) {
      checks.complain(name.position, "not the name of a header field");
    } else if (!may_change(name.value)) {
      checks.complain(name.position, "no policy changes this field");
    } else if (options.request_id && same("x-request-id")) {
      checks.complain(name.position, "\"request_id\" sets this field");
    } else if (replaces && std::ranges::any_of(replaced, same)) {
      checks.complain(name.position, "this field comes twice");
    } else if (replaces) {
      replaced.push_back(name.value);
    }
  };
  for (const auto& field : changes->set) check(field.name, true);
  for (const auto& name : changes->remove) check(name, true);
  for (const auto& field : changes->add) check(field.name, false);
  if (changes->set.empty() && changes->add.empty() && changes->remove.empty() && !checks.has_errors()) {
    checks.complain(changes->position, "nothing is changed here", "add \"set\", \"add\" or \"remove\"");
  }
}

}  // namespace

void Options::check(PolicyChecks& checks) const {
  if (!request && !response && !request_id && !checks.has_errors()) {
    checks.complain(checks.name.position, fmt::format("[policy.{}] changes nothing", checks.name.value),
                    "add \"request\", \"response\" or \"request_id\"");
  }
  check_changes(*this, checks, request, may_change_in_request);
  check_changes(*this, checks, response, may_change_in_response);
  if (!response) return;
  const auto added = checks.server_headers();
  const auto check = [&](const Located<std::string>& name) {
    const auto same = [&](const auto& header) { return http::same_name(header.value, name.value); };
    if (std::ranges::none_of(added, same)) return;
    checks.complain(name.position, "[server.headers] adds this field to all answers, after the policies");
  };
  for (const auto& field : response->set) check(field.name);
  for (const auto& name : response->remove) check(name);
}

}  // namespace sluice::gateway::headers
