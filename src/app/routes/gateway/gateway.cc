// [[route]]
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "app/config/checks.h"
#include "app/explain/answer.h"
#include "app/prepare/preparation.h"
#include "app/routes/gateway/check_route.h"
#include "app/routes/gateway/tables.h"
#include "app/routes/shapes.h"
#include "app/site.h"
#include "gateway/proxy/fields.h"
#include "gateway/proxy/path_change.h"
#include "gateway/proxy/proxy.h"
#include "gateway/proxy/redirect.h"
#include "gateway/proxy/respond.h"
#include "gateway/proxy/split.h"

namespace sluice::app {
namespace {

class GatewayRoute final : public Route {
 public:
  // `upstreams`: `upstream`, or those of `split` in their order.
  GatewayRoute(Plan& plan, std::shared_ptr<const Plan::Proxied> proxied,
               std::vector<std::shared_ptr<const UpstreamComponent>> upstreams)
      : Route(plan, shapes_of<GatewayTables>(proxied->options)),
        proxied_(std::move(proxied)),
        upstreams_(std::move(upstreams)),
        change_(std::move(*gateway::PathChange::make(proxied_->options))) {}

  void build(Site& site) const override {
    Site::Builder builder(site, *this, shapes().front());
    auto answer = answer_of_configuration();
    builder.add(builder.own(answer ? std::move(answer) : make_proxy(builder)));
  }

  std::unique_ptr<http::Handler> answer_of_configuration() const override {
    const gateway::RouteOptions& options = proxied_->options;
    if (options.respond) return std::make_unique<gateway::Respond>(*options.respond);
    if (!options.redirect) return nullptr;
    return std::make_unique<gateway::Redirect>(
        *gateway::Redirect::make(*options.redirect, shapes().front().pattern.names()));
  }
  void explain(AnswerExplainer& into, const Shape&, http::Exchange& exchange) const override {
    const gateway::RouteOptions& options = proxied_->options;
    gateway::ForwardedRequest forwarded;
    const auto* const head = forwarded.make(exchange.request, "",
                                            {.change = change_.get(),
                                             .preserve_host = options.preserve_host.value,
                                             .keeps_slashes = options.slashes.value == gateway::Slashes::keep});
    if (head == nullptr) return into.refuse(http::problem(400, "This path is not passed on to a server."));
    if (options.upstream) explain(into, *upstreams_.front(), "");
    std::uint64_t sum = 0;
    for (const auto& [name, weight] : options.split) sum += weight;
    for (std::size_t i = 0; i < options.split.size(); ++i) {
      explain(into, *upstreams_[i], fmt::format(", {} of {}", options.split[i].value, sum));
    }
    if (options.split_by) into.add("split_by", options.split_by->value);
    into.add_address("target", head->target);
    into.add("sent_host", options.preserve_host.value ? into.host() : "that of the server's URL");
  }

  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const GatewayRoute*>(&before);
    return other != nullptr && proxied_ == other->proxied_ && upstreams_ == other->upstreams_;
  }

 private:
  static void explain(AnswerExplainer& into, const UpstreamComponent& upstream, const std::string& share) {
    const gateway::UpstreamOptions& options = upstream.shared->options;
    const auto names = gateway::names_of(gateway::Balance{});
    const auto balance = std::ranges::find(names, options.balance.value, [](const auto& one) { return one.second; });
    into.add("upstream", fmt::format("{}, balance {}{}", options.name.value, balance->first, share));
    std::vector<std::string> servers;
    for (const auto& server : options.servers) {
      std::string& text = servers.emplace_back(into.shown_address(server.url.value));
      if (server.weight != 1) text += fmt::format(", weight {}", server.weight);
      if (server.backup) text += ", backup";
    }
    into.add_list("servers", std::move(servers));
  }

  [[nodiscard]] std::unique_ptr<http::Handler> make_proxy(Site::Builder& builder) const {
    const gateway::RouteOptions& options = proxied_->options;
    const auto proxy = [&](std::size_t index) { return builder.proxy_to(*upstreams_[index], proxied_, change_.get()); };
    if (options.upstream) return proxy(0);
    auto split = std::make_unique<gateway::Split>(options.split_by ? gateway::HashKey::parse(options.split_by->value)
                                                                   : std::nullopt);
    for (std::size_t i = 0; i < options.split.size(); ++i) {
      split->add(proxy(i), options.split[i].name.value, options.split[i].value);
    }
    return split;
  }

  const std::shared_ptr<const Plan::Proxied> proxied_;
  const std::vector<std::shared_ptr<const UpstreamComponent>> upstreams_;
  const std::unique_ptr<const gateway::PathChange> change_;  // null: the path is unchanged
};

}  // namespace

std::expected<void, Away> GatewayTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  for (const gateway::RouteOptions& options : preparation.options().routes) {
    (void)preparation.security(options.use);
    std::vector<std::shared_ptr<const UpstreamComponent>> upstreams;
    if (options.upstream) upstreams.push_back(plan.upstream(options.upstream->value));
    for (const auto& [name, weight] : options.split) upstreams.push_back(plan.upstream(name.value));
    plan.routes.push_back(std::make_shared<GatewayRoute>(
        plan, plan.add_proxied({.options = options, .policies = plan.policies_of(options.use)}, preparation.previous),
        std::move(upstreams)));
  }
  return {};
}

void GatewayTables::check(config::Checks& checks) {
  for (const gateway::RouteOptions& route : checks.options.routes) {
    checks.check_use(route.use, route.path.value, true);
    if (const auto pattern = checks.parse_path(route.path)) config::check_route(checks, route, *pattern);
  }
}

std::vector<Shape> GatewayTables::shapes(const gateway::RouteOptions& options) {
  return {{.path = options.path.value,
           .host = options.host.value,
           .position = options.path.position,
           .use = options.use,
           .methods = options.taken_methods(),
           .other_methods = options.other_methods(),
           .conditions = options.conditions(),
           .apart = "\"methods\", \"headers\" or \"query\"",
           .passes_on = options.passes_on(),
           .keeps_slashes = options.slashes.value == gateway::Slashes::keep,
           .upstream = options.upstream ? options.upstream->value : "",
           .strip = options.rewrite ? std::nullopt
                    : options.strip ? std::optional(options.strip->value)
                                    : ""}};
}

}  // namespace sluice::app
