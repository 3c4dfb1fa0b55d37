#include "app/components/policy/policy_keys.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"

namespace sluice::app {
namespace {

std::vector<std::string> files_of(const PolicyKeys::Policies& policies) {
  std::vector<std::string> paths;
  for (const auto& policy : policies) {
    const gateway::jwt::Options& jwt = policy.value.of<gateway::jwt::Options>();
    for (const auto* path : {&jwt.secret_file, &jwt.public_key, &jwt.jwks}) {
      if (*path) paths.push_back((*path)->value);
    }
  }
  return paths;
}

}  // namespace

void add_key_errors(const PolicyKeys::Policies& policies, std::vector<config::Diagnostic>& errors) {
  for (const auto& one : policies) {
    const gateway::jwt::Options& policy = one.value.of<gateway::jwt::Options>();
    const Located<std::string>* key = nullptr;
    for (const auto* source : {&policy.secret, &policy.secret_file, &policy.public_key, &policy.jwks}) {
      if (key == nullptr && *source) key = &**source;
    }
    const auto is_said = [&](const config::Diagnostic& one) {
      const auto same_line = [&](Position at) { return one.position.file == at.file && one.position.line == at.line; };
      return same_line(policy.position) || same_line(key->position);
    };
    if (key == nullptr || std::ranges::any_of(errors, is_said)) continue;
    const auto keys = gateway::jwt::load_keys(policy);
    if (!keys) errors.push_back({keys.error().position, keys.error().text});
  }
}

PolicyKeys::PolicyKeys(const Policies& policies, Keys keys)
    : policies_(policies), keys_(std::move(keys)), watch_(files_of(policies)) {}

bool PolicyKeys::reload() {
  watch_.reading();
  Keys fresh;
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    if (keys_[i] == nullptr || policies_[i].value.of<gateway::jwt::Options>().secret ||  // in the configuration itself
        policies_[i].value.of<gateway::jwt::Options>().by_login) {
      fresh.push_back(keys_[i]);
      continue;
    }
    auto loaded = gateway::jwt::load_keys(policies_[i].value.of<gateway::jwt::Options>());
    const std::string name = "policy " + policies_[i].name.value;
    if (!loaded) {
      log_error(name + ": " + loaded.error().text + "; the keys from before stay in use");
      return false;
    }
    for (const std::string& warning : (*loaded)->warnings) log_error(name + ": " + warning);
    fresh.push_back(std::move(*loaded));
  }
  keys_ = std::move(fresh);
  log_error("policies: keys read again");
  return true;
}

}  // namespace sluice::app
