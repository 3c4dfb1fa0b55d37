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
  return static_cast<RouteId>(found - names.begin());
}

std::string Plan::new_boot() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::shared_ptr<const Plan::Feed> Plan::add_feed(Feed feed, const Plan* before) {
  const auto is_same = [&](const auto& one) {
    return one->path == feed.path && one->database == feed.database && config::same(one->options, feed.options);
  };
  if (before != nullptr) {
    if (const auto found = std::ranges::find_if(before->feeds, is_same); found != before->feeds.end()) {
      return feeds.emplace_back(*found);
    }
  }
  return feeds.emplace_back(std::make_shared<const Feed>(std::move(feed)));
}

}  // namespace sluice::app
