#include "app/components/key_source/key_source.h"

#include <string_view>

#include <fmt/format.h>

namespace sluice::app {

std::shared_ptr<gateway::jwt::KeySource> KeySourceComponent::make(const core::Here& here, const Parts&) const {
  return gateway::jwt::KeySource::make(shared, here.reactor, here.mailbox, here.mesh, here.threads);
}

Readings KeySourceComponent::readings_of(gateway::jwt::KeySource& source) const {
  return labelled(source.readings(), "url", source.url().name);
}

core::Task<runtime::Readiness> KeySourceComponent::readiness_of(gateway::jwt::KeySource& source, Instant) const {
  if (source.has_keys()) co_return runtime::Readiness{};
  const std::string_view state = source.is_stale() ? " are stale." : " have not been fetched yet.";
  co_return runtime::Readiness{false, fmt::format("The keys of {}{}", source.url().name, state)};
}

}  // namespace sluice::app
