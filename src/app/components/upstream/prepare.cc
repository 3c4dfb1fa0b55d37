#include "app/components/upstream/prepare.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/config/difference.h"

namespace sluice::app {

std::expected<void, gateway::TlsProblem> add_upstream(Plan& plan, const gateway::UpstreamOptions& upstream,
                                                      const Plan* before) {
  std::shared_ptr<const net::tls::ClientContext> context;
  if (upstream.is_secure()) {
    auto made = gateway::make_tls_context(upstream);
    if (!made) return std::unexpected(made.error());
    context = std::move(*made);
    for (const std::string& warning : context->warnings()) {
      plan.warnings.push_back("upstream " + upstream.name.value + ": " + warning);
    }
  }
  const gateway::SharedUpstream* goes_on_from = nullptr;
  const auto earlier =
      before != nullptr ? before->all<UpstreamComponent>() : std::vector<std::shared_ptr<UpstreamComponent>>();
  std::shared_ptr<gateway::Drains> drains;
  for (const auto& component : earlier) {
    const gateway::SharedUpstream& one = *component->shared;
    if (one.options.name.value == upstream.name.value) drains = one.drains;
    if ((one.tls == nullptr) != (context == nullptr)) continue;
    if (context != nullptr && one.tls->fingerprint() != context->fingerprint()) continue;
    if (config::same(one.options, upstream)) {
      plan.components.push_back(component);
      return {};
    }
    if (!config::same(one.options.without_choice(), upstream.without_choice())) continue;
    goes_on_from = &one;
    context = one.tls;
    break;
  }
  auto shared = std::make_shared<gateway::SharedUpstream>(upstream, goes_on_from, std::move(context));
  if (drains != nullptr) shared->drains = std::move(drains);
  plan.components.push_back(std::make_shared<UpstreamComponent>(std::move(shared)));
  return {};
}

}  // namespace sluice::app
