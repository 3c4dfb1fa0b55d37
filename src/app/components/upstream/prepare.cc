#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/components/upstream/tables.h"
#include "app/config/difference.h"
#include "app/prepare/preparation.h"
#include "gateway/proxy/upstream.h"

namespace sluice::app {
namespace {

// Probes without a host have the one that requests have, if a route determines it.
gateway::UpstreamOptions with_probed_host(gateway::UpstreamOptions upstream, const Options& options) {
  if (!upstream.health || !upstream.health->host.value.empty()) return upstream;
  for (const gateway::RouteOptions& route : options.routes) {
    const std::string& host = route.host.value;
    if (host.empty() || host.starts_with("*.") || !route.preserve_host.value) continue;
    if (!route.passes_to(upstream.name.value)) continue;
    upstream.health->host.value = host;
    break;
  }
  return upstream;
}

// Adds an upstream to the plan. One with the same options and the same `tls` files as one of `before`, which may be
// null, keeps its connection pools and state. If only its servers or their balancing differ, the servers that stay keep
// theirs.
std::expected<void, gateway::TlsProblem> add_upstream(Plan& plan, const gateway::UpstreamOptions& upstream,
                                                      unsigned cores, const Plan* before) {
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
  auto shared = std::make_shared<gateway::SharedUpstream>(upstream, goes_on_from, std::move(context), cores);
  if (drains != nullptr) shared->drains = std::move(drains);
  plan.components.push_back(std::make_shared<UpstreamComponent>(std::move(shared)));
  return {};
}

}  // namespace

std::expected<void, Away> UpstreamTables::prepare(Preparation& preparation) {
  for (const auto& upstream : preparation.options().upstreams) {
    const auto added = add_upstream(preparation.plan, with_probed_host(upstream, preparation.options()),
                                    preparation.cores, preparation.previous);
    if (!added) preparation.errors.push_back({.position = added.error().position, .message = added.error().text});
  }
  return {};
}

}  // namespace sluice::app
