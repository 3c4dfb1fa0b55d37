// [[route]]
#include "gateway/proxy/proxy.h"

#include <optional>
#include <utility>

#include "app/routes/kind.h"
#include "app/worker.h"
#include "gateway/proxy/split.h"
#include "gateway/redirect.h"
#include "gateway/respond.h"

namespace sluice::app {
namespace {

class GatewayRoute final : public Route {
 public:
  GatewayRoute(std::shared_ptr<const Plan::Proxied> plan, const Options& all, Plan::RouteId id)
      : plan_(std::move(plan)), all_(all), id_(id), change_(std::move(*gateway::PathChange::make(plan_->options))) {}

  void build(Site& site) const override {
    const gateway::RouteOptions& options = plan_->options;
    http::Router::Route route{.pattern = *http::Pattern::parse(options.path.value),
                              .host = options.host.value,
                              .conditions = options.conditions(),
                              .passes_on = options.upstream || !options.split.empty()};
    http::Handler* const handler = site.own(make_handler(site, route.pattern));
    for (const http::Method method : options.taken_methods()) {
      route.handlers[static_cast<std::size_t>(method)] = handler;
    }
    site.add(id_, std::move(route), plan_->options.use);
  }

 private:
  [[nodiscard]] std::unique_ptr<http::Handler> make_handler(Site& site, const http::Pattern& pattern) const {
    const gateway::RouteOptions& options = plan_->options;
    if (options.respond) return std::make_unique<gateway::Respond>(*options.respond);
    if (options.redirect) {
      return std::make_unique<gateway::Redirect>(*gateway::Redirect::make(*options.redirect, pattern.names()));
    }
    const auto proxy = [&](const std::string& upstream) {
      const std::size_t index = *all_.find_upstream(upstream);
      return std::make_unique<gateway::Proxy>(site.upstream(index), site.plan()->upstreams[index], plan_, change_.get(),
                                              site.answer_fields().get());
    };
    if (options.upstream) return proxy(options.upstream->value);
    auto split = std::make_unique<gateway::Split>();
    for (const auto& [name, weight] : options.split) split->add(proxy(name.value), weight);
    return split;
  }

  const std::shared_ptr<const Plan::Proxied> plan_;
  const Options& all_;
  const Plan::RouteId id_;
  const std::unique_ptr<const gateway::PathChange> change_;  // null: the path is unchanged
};

std::expected<void, Away> prepare_proxy(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const auto& upstream : preparation.options().upstreams) {
    const auto added = plan.add_upstream(upstream, preparation.previous);
    if (!added) preparation.errors.push_back({.position = added.error().position, .message = added.error().text});
  }
  for (const gateway::RouteOptions& options : preparation.options().routes) {
    (void)preparation.security(options.use);
    plan.routes.push_back(std::make_unique<GatewayRoute>(
        plan.add_proxied({.options = options, .policies = plan.policies(options.use)}, preparation.previous),
        preparation.options(), plan.add_name(options.host.value + options.path.value)));
  }
  return {};
}

}  // namespace

extern const Kind proxy_kind{prepare_proxy};

}  // namespace sluice::app
