#include "app/components/key_source/key_source.h"

namespace sluice::app {

std::shared_ptr<gateway::jwt::KeySource> KeySourceComponent::make(const core::Here& here, const Parts&) const {
  return gateway::jwt::KeySource::make(shared, here.reactor, here.mailbox, here.mesh, here.threads);
}

Readings KeySourceComponent::readings_of(gateway::jwt::KeySource& source) const {
  return labelled(source.readings(), "url", source.url().name);
}

}  // namespace sluice::app
