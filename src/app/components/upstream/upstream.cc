#include "app/components/upstream/upstream.h"

namespace sluice::app {

std::shared_ptr<gateway::Upstream> UpstreamComponent::make(const core::Here& here, const Parts&) const {
  return std::make_shared<gateway::Upstream>(here.reactor, here.mailbox, &here.mesh, shared);
}

bool UpstreamComponent::adopts(const UpstreamComponent& before) const { return shared->cores == before.shared->cores; }

}  // namespace sluice::app
