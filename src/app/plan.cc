#include "app/plan.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "app/config/difference.h"

namespace sluice::app {

Plan::RouteId Plan::add_name(std::string name) {
  for (std::size_t id = ids.size(); id < names.size(); ++id) ids.emplace(names[id], static_cast<RouteId>(id));
  auto found = ids.find(name);
  if (found == ids.end()) {
    if (names.size() > std::numeric_limits<RouteId>::max()) {
      names_are_full = true;
      return 0;
    }
    found = ids.emplace(name, static_cast<RouteId>(names.size())).first;
    names.push_back(std::move(name));
  }
  const RouteId id = found->second;
  is_served.resize(names.size());
  is_served[id] = true;
  return id;
}

std::string Plan::new_boot() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

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

std::shared_ptr<gateway::jwt::Revocations> Plan::revocations_at(std::string_view path) const {
  const auto found = std::ranges::find_if(revocations, [&](const auto& one) { return one->path() == path; });
  return found != revocations.end() ? *found : nullptr;
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
