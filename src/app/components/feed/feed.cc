#include "app/components/feed/feed.h"

#include "app/config/difference.h"

namespace sluice::app {

bool FeedComponent::is_same(const FeedComponent& other) const {
  return options.path == other.options.path && options.database == other.options.database &&
         config::same(options.options, other.options.options) && config::same(options.require, other.options.require) &&
         config::same(options.policies, other.options.policies);
}

std::shared_ptr<api::changes::Feed> FeedComponent::make(const core::Here& here, const Parts&) const {
  const api::changes::Feed::Limits limits{.events = options.options.keep, .bytes = options.options.keep_bytes};
  return std::make_shared<api::changes::Feed>(here.reactor, options.boot, limits);
}

Readings FeedComponent::readings_of(api::changes::Feed& feed) const {
  return labelled(feed.counters.readings(), "http_route", options.path);
}

}  // namespace sluice::app
