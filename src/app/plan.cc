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

// Adds `one`, or the equal object of `before`.
template <class One, class Same>
std::shared_ptr<const One> add(std::vector<std::shared_ptr<const One>>& all,
                               const std::vector<std::shared_ptr<const One>>* before, One one, Same is_same) {
  if (before != nullptr) {
    const auto found = std::ranges::find_if(*before, [&](const auto& other) { return is_same(*other, one); });
    if (found != before->end()) return all.emplace_back(*found);
  }
  return all.emplace_back(std::make_shared<const One>(std::move(one)));
}

// Whether the limits are the same except for how much they allow.
bool counts_the_same(const gateway::PolicyOptions& one, const gateway::PolicyOptions& other) {
  if (one.type.value != other.type.value) return false;
  const auto same = [](const auto& a, const auto& b) { return a.per.items == b.per.items && a.keys == b.keys; };
  return same(one.rate_limit, other.rate_limit) && same(one.concurrency, other.concurrency);
}

}  // namespace

std::shared_ptr<const Plan::Feed> Plan::add_feed(Feed feed, const Plan* before) {
  return add(
      feeds, before != nullptr ? &before->feeds : nullptr, std::move(feed), [](const Feed& one, const Feed& other) {
        return one.path == other.path && one.database == other.database && config::same(one.options, other.options) &&
               config::same(one.require, other.require) && config::same(one.policies, other.policies);
      });
}

std::shared_ptr<const Plan::WebSocket> Plan::add_websocket(WebSocket websocket, const Plan* before) {
  return add(websockets, before != nullptr ? &before->websockets : nullptr, std::move(websocket),
             [](const WebSocket& one, const WebSocket& other) {
               return config::same(one.options, other.options) && config::same(one.policies, other.policies);
             });
}

std::shared_ptr<const Plan::Proxied> Plan::add_proxied(Proxied added, const Plan* before) {
  return add(proxied, before != nullptr ? &before->proxied : nullptr, std::move(added),
             [](const Proxied& one, const Proxied& other) {
               return config::same(one.options, other.options) && config::same(one.policies, other.policies);
             });
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
  }
  const gateway::SharedUpstream* goes_on_from = nullptr;
  for (std::size_t i = 0; before != nullptr && i < before->upstreams.size(); ++i) {
    const gateway::SharedUpstream& one = *before->upstreams[i];
    if ((one.tls == nullptr) != (context == nullptr)) continue;
    if (context != nullptr && one.tls->fingerprint() != context->fingerprint()) continue;
    if (config::same(one.options, upstream)) {
      upstreams.push_back(before->upstreams[i]);
      return {};
    }
    if (!config::same(one.options.without_choice(), upstream.without_choice())) continue;
    goes_on_from = &one;
    context = one.tls;
    break;
  }
  upstreams.push_back(std::make_shared<gateway::SharedUpstream>(upstream, goes_on_from, std::move(context)));
  return {};
}

std::expected<void, gateway::jwt::KeyProblem> Plan::add_key_source(const gateway::jwt::Options& policy, unsigned cores,
                                                                   const Plan* before) {
  if (std::ranges::any_of(key_sources, [&](const auto& one) { return one->is_for(policy); })) return {};
  auto made = gateway::jwt::SharedKeySource::make(policy, cores);
  if (!made) return std::unexpected(made.error());
  for (std::size_t i = 0; before != nullptr && i < before->key_sources.size(); ++i) {
    if (before->key_sources[i]->is_same(**made)) *made = before->key_sources[i];
  }
  key_sources.push_back(std::move(*made));
  return {};
}

const gateway::jwt::SharedKeySource* Plan::key_source_of(const gateway::PolicyOptions& policy) const {
  const auto found = std::ranges::find_if(key_sources, [&](const auto& one) { return one->is_for(policy.jwt); });
  return found != key_sources.end() ? found->get() : nullptr;
}

std::optional<std::size_t> Plan::upstream_of(const gateway::PolicyOptions& policy) const {
  if (policy.type.value != gateway::PolicyType::auth_request) return std::nullopt;
  return options.find_upstream(policy.auth_request.upstream.value);
}

void Plan::add_limits(unsigned cores, const Plan* before) {
  for (const auto& policy : options.policies) {
    auto& limit = limits.emplace_back();
    if (!gateway::is_counted(policy.value.type.value)) continue;
    const auto index = before != nullptr ? before->options.find_policy(policy.name.value) : std::nullopt;
    if (index && counts_the_same(before->options.policies[*index].value, policy.value)) limit = before->limits[*index];
    if (!limit) limit = std::make_shared<gateway::limits::Shared>(cores);
  }
}

Plan::Policies Plan::policies(const std::vector<Located<std::string>>& use) const {
  Policies used;
  for (const auto& name : use) {
    const auto index = options.find_policy(name.value);
    // Limits do not decide which clients may stay.
    if (index && !gateway::is_limit(options.policies[*index].value.type.value)) {
      used.push_back({options.policies[*index].name, options.policies[*index].value.without_keys()});
    }
  }
  return used;
}

std::shared_ptr<Plan::Resident> Plan::table_of(const gateway::PolicyOptions& policy) const {
  if (policy.type.value != gateway::PolicyType::api_key || !policy.api_key.table) return nullptr;
  const auto found =
      std::ranges::find(residents, policy.api_key.table->value, [](const auto& one) { return one->plan->name; });
  return found != residents.end() ? *found : nullptr;
}

}  // namespace sluice::app
