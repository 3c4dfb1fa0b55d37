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
    // Those beyond are counted as requests that match none.
    if (names.size() > std::numeric_limits<RouteId>::max()) return 0;
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

// Adds it, or the one of `before` that is the same.
template <class One, class Same>
std::shared_ptr<const One> add(std::vector<std::shared_ptr<const One>>& all,
                               const std::vector<std::shared_ptr<const One>>* before, One one, Same is_same) {
  if (before != nullptr) {
    const auto found = std::ranges::find_if(*before, [&](const auto& other) { return is_same(*other, one); });
    if (found != before->end()) return all.emplace_back(*found);
  }
  return all.emplace_back(std::make_shared<const One>(std::move(one)));
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

void Plan::add_upstream(const gateway::UpstreamOptions& upstream, const Plan* before) {
  for (std::size_t i = 0; before != nullptr && i < before->upstreams.size(); ++i) {
    if (!config::same(before->upstreams[i]->options, upstream)) continue;
    upstreams.push_back(before->upstreams[i]);
    return;
  }
  upstreams.push_back(std::make_shared<gateway::SharedUpstream>(upstream));
}

Plan::Policies Plan::policies(const std::vector<Located<std::string>>& use) const {
  Policies used;
  for (const auto& name : use) {
    if (const auto index = options.find_policy(name.value)) used.push_back(options.policies[*index]);
  }
  return used;
}

}  // namespace sluice::app
