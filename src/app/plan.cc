#include "app/plan.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "app/config/difference.h"

namespace sluice::app {

Plan::RouteId Plan::add_name(std::string name) {
  auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    if (names.size() > std::numeric_limits<RouteId>::max()) {
      names_are_full = true;
      return 0;
    }
    found = names.insert(found, std::move(name));
  }
  const auto id = static_cast<RouteId>(found - names.begin());
  is_served.resize(names.size());
  is_served[id] = true;
  return id;
}

std::string Plan::new_boot() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

namespace {

// Whether the limits are the same except for how much they allow.
bool counts_the_same(const gateway::PolicyOptions& one, const gateway::PolicyOptions& other) {
  if (one.type.value != other.type.value) return false;
  const auto same = [](const auto& a, const auto& b) { return a.per.items == b.per.items && a.keys == b.keys; };
  return same(one.of<gateway::limits::RateLimitOptions>(), other.of<gateway::limits::RateLimitOptions>()) &&
         same(one.of<gateway::limits::ConcurrencyOptions>(), other.of<gateway::limits::ConcurrencyOptions>());
}

// Null if the keys of the policy are not fetched.
std::shared_ptr<KeySourceComponent> find_source(const Plan& plan, const gateway::jwt::Options& policy) {
  for (auto& one : plan.all<KeySourceComponent>()) {
    if (one->shared->is_for(policy)) return std::move(one);
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<UpstreamComponent> Plan::upstream(std::string_view name) const {
  for (auto& one : all<UpstreamComponent>()) {
    if (one->shared->options.name.value == name) return std::move(one);
  }
  return nullptr;
}

std::shared_ptr<StoreComponent> Plan::store(std::string_view name) const {
  for (auto& one : all<StoreComponent>()) {
    if (one->options.name.value == name) return std::move(one);
  }
  return nullptr;
}

std::shared_ptr<const Plan::Proxied> Plan::add_proxied(Proxied added, const Plan* before) {
  if (before != nullptr) {
    const auto is_same = [&](const auto& one) {
      return config::same(one->options, added.options) && config::same(one->policies, added.policies);
    };
    const auto found = std::ranges::find_if(before->proxied, is_same);
    if (found != before->proxied.end()) return proxied.emplace_back(*found);
  }
  return proxied.emplace_back(std::make_shared<const Proxied>(std::move(added)));
}

bool Plan::has_proxied(const void* wanted) const {
  return std::ranges::any_of(proxied, [&](const auto& one) { return one.get() == wanted; });
}

std::expected<void, gateway::TlsProblem> Plan::add_upstream(const gateway::UpstreamOptions& upstream,
                                                            const Plan* before) {
  std::shared_ptr<const net::tls::ClientContext> context;
  if (upstream.is_secure()) {
    auto made = gateway::make_tls_context(upstream);
    if (!made) return std::unexpected(made.error());
    context = std::move(*made);
    for (const std::string& warning : context->warnings()) {
      warnings.push_back("upstream " + upstream.name.value + ": " + warning);
    }
  }
  const gateway::SharedUpstream* goes_on_from = nullptr;
  const auto earlier =
      before != nullptr ? before->all<UpstreamComponent>() : std::vector<std::shared_ptr<UpstreamComponent>>();
  std::shared_ptr<gateway::Drains> drains;
  for (const auto& component : earlier) {
    const gateway::SharedUpstream& one = *component->shared;
    if (one.options.name.value == upstream.name.value) drains = one.drains;
    if ((one.tls == nullptr) != (context == nullptr)) continue;
    if (context != nullptr && one.tls->fingerprint() != context->fingerprint()) continue;
    if (config::same(one.options, upstream)) {
      components.push_back(component);
      return {};
    }
    if (!config::same(one.options.without_choice(), upstream.without_choice())) continue;
    goes_on_from = &one;
    context = one.tls;
    break;
  }
  auto shared = std::make_shared<gateway::SharedUpstream>(upstream, goes_on_from, std::move(context));
  if (drains != nullptr) shared->drains = std::move(drains);
  components.push_back(std::make_shared<UpstreamComponent>(std::move(shared)));
  return {};
}

std::expected<void, gateway::jwt::KeyProblem> Plan::add_key_source(const gateway::jwt::Options& policy, unsigned cores,
                                                                   const Plan* before) {
  if (find_source(*this, policy) != nullptr) return {};
  auto made = gateway::jwt::SharedKeySource::make(policy, cores);
  if (!made) return std::unexpected(made.error());
  (void)add(std::make_shared<KeySourceComponent>(std::move(*made)), before);
  return {};
}

std::shared_ptr<gateway::jwt::Revocations> Plan::revocations_at(std::string_view path) const {
  const auto found = std::ranges::find_if(revocations, [&](const auto& one) { return one->path() == path; });
  return found != revocations.end() ? *found : nullptr;
}

std::expected<void, std::string> Plan::add_revocations(const std::string& path, const Plan* before) {
  if (revocations_at(path) != nullptr) return {};
  if (auto kept = before != nullptr ? before->revocations_at(path) : nullptr) {
    revocations.push_back(std::move(kept));
    return {};
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto read = gateway::jwt::Revocations::read(path, std::chrono::duration<double>(now).count());
  if (!read) return std::unexpected(std::move(read.error()));
  revocations.push_back(std::move(*read));
  return {};
}

void Plan::add_policies(unsigned cores, const Plan* before) {
  for (std::size_t i = 0; i < options.policies.size(); ++i) {
    const auto& [name, policy] = options.policies[i];
    PolicyComponent::Options made;
    made.options = options.policies[i];
    made.keys = keys[i];
    if (policy.kind().is_counted) {
      const auto index = before != nullptr ? before->options.find_policy(name.value) : std::nullopt;
      const bool goes_on = index && counts_the_same(before->options.policies[*index].value, policy);
      made.limit = goes_on ? before->policies[*index]->options.limit : std::make_shared<gateway::limits::Shared>(cores);
    }
    if (policy.is<gateway::jwt::Options>()) {
      const gateway::jwt::Options& jwt = policy.of<gateway::jwt::Options>();
      made.source = find_source(*this, jwt);
      if (jwt.revocations) made.revocations = revocations_at(jwt.revocations->value);
    }
    if (policy.is<gateway::authrequest::Options>()) {
      made.upstream = upstream(policy.of<gateway::authrequest::Options>().upstream.value);
    }
    if (const auto& table = policy.table()) {
      for (const auto& resident : all<ResidentComponent>()) {
        if (resident->plan->name == table->value) made.table = resident;
      }
    }
    policies.push_back(add(std::make_shared<PolicyComponent>(std::move(made)), before));
  }
}

Policies Plan::policies_of(const std::vector<Located<std::string>>& use) const {
  Policies used;
  for (const auto& name : use) {
    const auto index = options.find_policy(name.value);
    // Limits do not decide which clients may stay.
    if (index && !options.policies[*index].value.kind().is_limit) {
      used.push_back({options.policies[*index].name, options.policies[*index].value.without_keys()});
    }
  }
  return used;
}

}  // namespace sluice::app
