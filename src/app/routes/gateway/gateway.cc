// [[route]]
#include <optional>
#include <utility>

#include "app/components/upstream/prepare.h"
#include "app/config/checks.h"
#include "app/routes/claims.h"
#include "app/routes/gateway/check_route.h"
#include "app/routes/gateway/tables.h"
#include "app/routes/preparation.h"
#include "app/site.h"
#include "gateway/proxy/proxy.h"
#include "gateway/proxy/redirect.h"
#include "gateway/proxy/respond.h"
#include "gateway/proxy/split.h"

namespace sluice::app {
namespace {

class GatewayRoute final : public Route {
 public:
  // `upstreams`: `upstream`, or those of `split` in their order.
  GatewayRoute(std::shared_ptr<const Plan::Proxied> plan,
               std::vector<std::shared_ptr<const UpstreamComponent>> upstreams, Plan::RouteId id)
      : plan_(std::move(plan)),
        upstreams_(std::move(upstreams)),
        id_(id),
        change_(std::move(*gateway::PathChange::make(plan_->options))) {}

  void build(Site& site) const override {
    const gateway::RouteOptions& options = plan_->options;
    http::Router::Route route{.pattern = *http::Pattern::parse(options.path.value),
                              .host = options.host.value,
                              .conditions = options.conditions(),
                              .other_methods = options.other_methods(),
                              .passes_on = options.passes_on(),
                              .keeps_slashes = options.slashes.value == gateway::Slashes::keep};
    Site::Builder builder(site, id_, shared_from_this(), options.use);
    http::Handler* const handler = builder.own(make_handler(builder, route.pattern));
    for (const http::Method method : options.taken_methods()) {
      route.handlers[static_cast<std::size_t>(method)] = handler;
    }
    builder.add(std::move(route));
  }

  Id id() const override { return id_; }
  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const GatewayRoute*>(&before);
    return other != nullptr && plan_ == other->plan_ && upstreams_ == other->upstreams_;
  }

 private:
  [[nodiscard]] std::unique_ptr<http::Handler> make_handler(Site::Builder& builder,
                                                            const http::Pattern& pattern) const {
    const gateway::RouteOptions& options = plan_->options;
    if (options.respond) return std::make_unique<gateway::Respond>(*options.respond);
    if (options.redirect) {
      return std::make_unique<gateway::Redirect>(*gateway::Redirect::make(*options.redirect, pattern.names()));
    }
    const auto proxy = [&](std::size_t index) { return builder.proxy_to(*upstreams_[index], plan_, change_.get()); };
    if (options.upstream) return proxy(0);
    auto split = std::make_unique<gateway::Split>(options.split_by ? gateway::HashKey::parse(options.split_by->value)
                                                                   : std::nullopt);
    for (std::size_t i = 0; i < options.split.size(); ++i) {
      split->add(proxy(i), options.split[i].name.value, options.split[i].value);
    }
    return split;
  }

  const std::shared_ptr<const Plan::Proxied> plan_;
  const std::vector<std::shared_ptr<const UpstreamComponent>> upstreams_;
  const Plan::RouteId id_;
  const std::unique_ptr<const gateway::PathChange> change_;  // null: the path is unchanged
};

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

}  // namespace

std::expected<void, Away> GatewayTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const auto& upstream : preparation.options().upstreams) {
    const auto added = add_upstream(plan, with_probed_host(upstream, preparation.options()), preparation.previous);
    if (!added) preparation.errors.push_back({.position = added.error().position, .message = added.error().text});
  }
  for (const gateway::RouteOptions& options : preparation.options().routes) {
    (void)preparation.security(options.use);
    std::vector<std::shared_ptr<const UpstreamComponent>> upstreams;
    if (options.upstream) upstreams.push_back(plan.upstream(options.upstream->value));
    for (const auto& [name, weight] : options.split) upstreams.push_back(plan.upstream(name.value));
    plan.routes.push_back(std::make_shared<GatewayRoute>(
        plan.add_proxied({.options = options, .policies = plan.policies_of(options.use)}, preparation.previous),
        std::move(upstreams), plan.add_name(options.host.value + options.path.value)));
  }
  return {};
}

void GatewayTables::check(config::Checks& checks) {
  for (const gateway::RouteOptions& route : checks.options.routes) {
    checks.check_use(route.use, route.path.value, true);
    if (const auto pattern = checks.parse_path(route.path)) config::check_route(checks, route, *pattern);
  }
}

void GatewayTables::claim(const Options& options, std::vector<Claim>& claims) {
  for (const gateway::RouteOptions& route : options.routes) {
    claims.push_back({.path = route.path.value,
                      .host = route.host.value,
                      .position = route.path.position,
                      .use = &route.use,
                      .methods = route.taken_methods(),
                      .other_methods = route.other_methods(),
                      .conditions = route.conditions(),
                      .apart = "\"methods\", \"headers\" or \"query\"",
                      .passes_on = route.passes_on(),
                      .upstream = route.upstream ? std::string_view(route.upstream->value) : "",
                      .strip = route.rewrite ? std::nullopt
                               : route.strip ? std::optional<std::string_view>(route.strip->value)
                                             : ""});
  }
}

}  // namespace sluice::app
