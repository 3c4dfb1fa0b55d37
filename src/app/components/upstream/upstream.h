#pragma once

#include <memory>
#include <utility>

#include "app/components/component.h"
#include "gateway/proxy/upstream.h"

namespace sluice::app {

// [[upstream]]. One that has other servers or another balancing adopts the part of the one before.
class UpstreamComponent final : public ComponentOf<UpstreamComponent, gateway::Upstream> {
 public:
  explicit UpstreamComponent(std::shared_ptr<gateway::SharedUpstream> of) : shared(std::move(of)) {}

  const std::shared_ptr<gateway::SharedUpstream> shared;

 private:
  std::shared_ptr<gateway::Upstream> make(const core::Here& here, const Parts& parts) const override;
  bool adopts(const UpstreamComponent& before) const override;
  void serve(gateway::Upstream& upstream, const Parts& /*parts*/) const override { upstream.serve(shared); }
  Readings readings_of(gateway::Upstream& upstream) const override { return upstream.readings(); }
  core::Task<runtime::Readiness> readiness_of(gateway::Upstream& upstream, Instant deadline) const override;
};

}  // namespace sluice::app
