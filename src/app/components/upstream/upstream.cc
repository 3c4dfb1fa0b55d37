#include "app/components/upstream/upstream.h"

#include <fmt/format.h>

namespace sluice::app {

std::shared_ptr<gateway::Upstream> UpstreamComponent::make(const core::Here& here, const Parts&) const {
  return std::make_shared<gateway::Upstream>(here.reactor, here.mailbox, &here.mesh, shared);
}

bool UpstreamComponent::adopts(const UpstreamComponent& before) const { return shared->cores == before.shared->cores; }

core::Task<runtime::Readiness> UpstreamComponent::readiness_of(gateway::Upstream& upstream, Instant) const {
  if (upstream.has_server()) co_return runtime::Readiness{};
  co_return runtime::Readiness{!shared->options.required.value,
                               fmt::format("The upstream \"{}\" has no available server.", shared->options.name.value)};
}

}  // namespace sluice::app
