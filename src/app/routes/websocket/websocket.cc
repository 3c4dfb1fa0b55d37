// [[websocket]]
#include <utility>

#include "app/config/checks.h"
#include "app/routes/claims.h"
#include "app/routes/preparation.h"
#include "app/routes/websocket/tables.h"
#include "app/site.h"
#include "http/websocket/endpoint.h"

namespace sluice::app {
namespace {

class WebSocketRoute final : public Route {
 public:
  WebSocketRoute(std::shared_ptr<const WebSocketComponent> plan, Plan::RouteId id) : plan_(std::move(plan)), id_(id) {}

  void build(Site& site) const override {
    http::Router::Route route{.pattern = *http::Pattern::parse(plan_->options.path.value),
                              .host = plan_->options.host.value,
                              .upgrades = true};
    Site::Builder builder(site, id_, shared_from_this(), plan_->options.use);
    http::Handler* const handler = &builder.part(*plan_);
    route.handlers[static_cast<std::size_t>(http::Method::get)] = handler;
    route.handlers[static_cast<std::size_t>(http::Method::connect)] = handler;  // over HTTP/2 (RFC 8441)
    builder.add(std::move(route));
  }

  Id id() const override { return id_; }
  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const WebSocketRoute*>(&before);
    return other != nullptr && plan_ == other->plan_;
  }

 private:
  const std::shared_ptr<const WebSocketComponent> plan_;
  const Plan::RouteId id_;
};

}  // namespace

std::expected<void, Away> WebSocketTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  std::shared_ptr<WebSocketChannelsComponent> channels;
  if (!preparation.options().websockets.empty()) {
    channels = plan.add(std::make_shared<WebSocketChannelsComponent>(), preparation.previous);
  }
  for (const ws::WebSocketOptions& options : preparation.options().websockets) {
    (void)preparation.security(options.use);
    plan.routes.push_back(std::make_shared<WebSocketRoute>(
        plan.add(std::make_shared<WebSocketComponent>(options, plan.policies_of(options.use), channels),
                 preparation.previous),
        plan.add_name(options.host.value + options.path.value)));
  }
  return {};
}

void WebSocketTables::check(config::Checks& checks) {
  for (const ws::WebSocketOptions& websocket : checks.options.websockets) {
    checks.check_use(websocket.use, websocket.path.value);
    if (checks.options.uses(websocket.use, gateway::policy_type<gateway::cors::Options>)) {
      checks.complain(websocket.path.position, "a policy of type \"cors\" has no effect on a websocket",
                      "\"origins\" of [[websocket]] says whose pages may connect");
    }
    if (websocket.max_frame && websocket.max_frame->value > websocket.max_message) {
      checks.complain(websocket.max_frame->position, "\"max_frame\" is larger than \"max_message\"");
    }
    (void)checks.parse_path(websocket.path);
  }
}

void WebSocketTables::claim(const Options& options, std::vector<Claim>& claims) {
  for (const ws::WebSocketOptions& websocket : options.websockets) {
    claims.push_back({.path = websocket.path.value,
                      .host = websocket.host.value,
                      .position = websocket.path.position,
                      .use = &websocket.use});
  }
}

}  // namespace sluice::app
