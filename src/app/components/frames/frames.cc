#include "app/components/frames/frames.h"

#include <stdexcept>

#include "app/components/policy/policy.h"
#include "app/config/difference.h"
#include "services/frame_door.h"

namespace sluice::app {
namespace {

http::Binding::Filters filters_of(const std::vector<Located<std::string>>& use, const Parts& parts) {
  http::Binding::Filters filters;
  for (const auto& name : use) {
    for (const Parts::One& one : parts.all()) {
      const auto* const policy = dynamic_cast<const PolicyComponent*>(one.component.get());
      if (policy != nullptr && policy->options.options.name.value == name.value) filters.push_back(parts.find(policy));
    }
  }
  // Nobody is let in without the policies.
  if (filters.size() != use.size()) throw std::runtime_error("[[frames]] has no policies");
  return filters;
}

}  // namespace

bool FramesComponent::is_same(const FramesComponent& other) const {
  return config::same(options, other.options) && config::same(policies_, other.policies_) &&
         service_ == other.service_ && route_ == other.route_;
}

bool FramesComponent::adopts(const FramesComponent& before) const {
  return service_->name() == before.service_->name() &&
         options.listen.front().value == before.options.listen.front().value;
}

std::shared_ptr<FramesPart> FramesComponent::make(const core::Here& here, const Parts& parts) const {
  return std::make_shared<FramesPart>(here.reactor, parts.find(service_.get()));
}

void FramesComponent::serve(FramesPart& part, const Parts& parts) const {
  if (!config::same(part.policies, policies_)) part.server.close_own();
  part.policies = policies_;
  services::FrameDoor::Route route{.name = "frames:" + service_->name(),
                                   .id = route_,
                                   .wants_token = options.token.value,
                                   .is_logged = options.access_log};
  part.server.set_door(std::make_shared<services::FrameDoor>(part.reactor, filters_of(options.use, parts),
                                                             std::move(route), part.observer));
}

void FramesComponent::retire(FramesPart& part) const {
  part.server.stop_accepting();
  part.server.close_own();
}

}  // namespace sluice::app
