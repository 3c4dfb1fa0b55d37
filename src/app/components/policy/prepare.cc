#include "app/components/policy/prepare.h"

#include <chrono>
#include <memory>
#include <utility>

#include "app/components/key_source/prepare.h"

namespace sluice::app {

namespace {

// Whether the limits are the same except for how much they allow.
bool counts_the_same(const gateway::PolicyOptions& one, const gateway::PolicyOptions& other) {
  if (one.type.value != other.type.value) return false;
  const auto same = [](const auto& a, const auto& b) { return a.per.items == b.per.items && a.keys == b.keys; };
  return same(one.of<gateway::limits::RateLimitOptions>(), other.of<gateway::limits::RateLimitOptions>()) &&
         same(one.of<gateway::limits::ConcurrencyOptions>(), other.of<gateway::limits::ConcurrencyOptions>());
}

}  // namespace

std::expected<void, std::string> add_revocations(Plan& plan, const std::string& path, const Plan* before) {
  if (plan.revocations_at(path) != nullptr) return {};
  if (auto kept = before != nullptr ? before->revocations_at(path) : nullptr) {
    plan.revocations.push_back(std::move(kept));
    return {};
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto read = gateway::jwt::Revocations::read(path, std::chrono::duration<double>(now).count());
  if (!read) return std::unexpected(std::move(read.error()));
  plan.revocations.push_back(std::move(*read));
  return {};
}

void add_policies(Plan& plan, unsigned cores, const Plan* before) {
  for (std::size_t i = 0; i < plan.options.policies.size(); ++i) {
    const auto& [name, policy] = plan.options.policies[i];
    PolicyComponent::Options made;
    made.options = plan.options.policies[i];
    if (plan.keys[i]) made.keys = std::make_shared<gateway::jwt::CurrentKeys>(plan.keys[i]);
    if (policy.kind().is_counted) {
      const auto index = before != nullptr ? before->options.find_policy(name.value) : std::nullopt;
      const bool goes_on = index && counts_the_same(before->options.policies[*index].value, policy);
      made.limit = goes_on ? before->policies[*index]->options.limit : std::make_shared<gateway::limits::Shared>(cores);
    }
    if (policy.is<gateway::jwt::Options>()) {
      const gateway::jwt::Options& jwt = policy.of<gateway::jwt::Options>();
      made.source = find_source(plan, jwt);
      if (made.source) made.keys = made.source->shared->keys;
      if (jwt.revocations) made.revocations = plan.revocations_at(jwt.revocations->value);
    }
    if (policy.of<gateway::jwt::Options>().by_login) {
      for (const auto& login : plan.all<LoginComponent>()) made.ended = login->prepared->ended;
    }
    if (policy.is<gateway::authrequest::Options>()) {
      made.upstream = plan.upstream(policy.of<gateway::authrequest::Options>().upstream.value);
    }
    if (const auto& table = policy.table()) {
      for (const auto& resident : plan.all<ResidentComponent>()) {
        if (resident->plan->name == table->value) made.table = resident;
      }
    }
    plan.policies.push_back(plan.add(std::make_shared<PolicyComponent>(std::move(made)), before));
  }
}

}  // namespace sluice::app
