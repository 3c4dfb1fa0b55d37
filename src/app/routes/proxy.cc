// [[route]]
#include "gateway/proxy/proxy.h"

#include <utility>

#include "app/routes/kind.h"
#include "app/worker.h"

namespace sluice::app {
namespace {

class ProxyRoute final : public Route {
 public:
  ProxyRoute(const gateway::RouteOptions& options, std::size_t upstream, Plan::RouteId id)
      : options_(options), upstream_(upstream), id_(id) {}

  void build(Site& site) const override {
    http::Router::Route route{.pattern = *http::Pattern::parse(options_.path.value)};
    http::Handler* const handler = site.own(std::make_unique<gateway::Proxy>(site.upstream(upstream_)));
    using http::Method;
    for (const Method method :
         {Method::get, Method::post, Method::put, Method::delete_, Method::patch, Method::options}) {
      route.handlers[static_cast<std::size_t>(method)] = handler;
    }
    site.add(id_, std::move(route), options_.use);
  }

 private:
  const gateway::RouteOptions& options_;
  const std::size_t upstream_;  // its index in the plan
  const Plan::RouteId id_;
};

std::expected<void, Away> prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const auto& upstream : preparation.options().upstreams) plan.add_upstream(upstream, preparation.previous);
  for (const gateway::RouteOptions& options : preparation.options().routes) {
    (void)preparation.security(options.use);
    plan.routes.push_back(std::make_unique<ProxyRoute>(
        options, *preparation.options().find_upstream(options.upstream.value), plan.add_name(options.path.value)));
  }
  return {};
}

}  // namespace

extern const Kind proxy_kind{prepare};

}  // namespace sluice::app
