// [[websocket]]
#include <utility>

#include "app/config/checks.h"
#include "app/explain/answer.h"
#include "app/prepare/preparation.h"
#include "app/routes/shapes.h"
#include "app/routes/websocket/tables.h"
#include "app/site.h"
#include "http/websocket/endpoint.h"

namespace sluice::app {
namespace {

class WebSocketRoute final : public Route {
 public:
  WebSocketRoute(Plan& plan, std::shared_ptr<const WebSocketComponent> component,
                 std::vector<api::openapi::Security> security)
      : Route(plan, shapes_of<WebSocketTables>(component->options)),
        component_(std::move(component)),
        security_(std::move(security)) {}

  void build(Site& site) const override {
    Site::Builder builder(site, *this, shapes().front());
    builder.add(&builder.part(*component_));
  }
  void explain(AnswerExplainer& into, const Shape&, http::Exchange&) const override {
    const std::string& service = component_->options.service.value;
    into.add("websocket", service.empty() ? "an echo of each message" : "a session of the service \"" + service + '"');
  }

  // An echo is not part of an API.
  void describe(Described& into) const override {
    const std::string& service = component_->options.service.value;
    if (service.empty()) return;
    into.websockets.push_back({.pattern = shapes().front().pattern, .service = service, .security = security_});
  }

  bool is_same(const Route& before) const override {
    const auto* const other = dynamic_cast<const WebSocketRoute*>(&before);
    return other != nullptr && component_ == other->component_;
  }

 private:
  const std::shared_ptr<const WebSocketComponent> component_;
  const std::vector<api::openapi::Security> security_;
};

}  // namespace

std::expected<void, Away> WebSocketTables::prepare(Preparation& preparation) {
  Plan& plan = preparation.plan;
  std::shared_ptr<WebSocketChannelsComponent> channels;
  if (!preparation.options().websockets.empty()) {
    channels = plan.add(std::make_shared<WebSocketChannelsComponent>(), preparation.previous);
  }
  for (const ws::WebSocketOptions& options : preparation.options().websockets) {
    auto security = preparation.security(options.use);
    std::shared_ptr<const ServiceComponent> service;
    for (const auto& one : plan.all<ServiceComponent>()) {
      if (one->name() == options.service.value) service = one;
    }
    auto made = std::make_shared<WebSocketComponent>(options, plan.policies_of(options.use), channels, service);
    plan.routes.push_back(
        std::make_shared<WebSocketRoute>(plan, plan.add(std::move(made), preparation.previous), std::move(security)));
  }
  return {};
}

void WebSocketTables::check(config::Checks& checks) {
  for (const ws::WebSocketOptions& websocket : checks.options.websockets) {
    checks.check_use(websocket.use, websocket.path.value);
    const Located<std::string>& service = websocket.service;
    if (websocket.handler.has_value() != service.value.empty()) {
      checks.complain(websocket.position, "a websocket has either a \"handler\" or a \"service\"");
    } else if (!service.value.empty() && !has_service(service.value)) {
      checks.complain(service.position, "there is no service \"" + service.value + '"', describe_services());
    }
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

std::vector<Shape> WebSocketTables::shapes(const ws::WebSocketOptions& options) {
  return {{.path = options.path.value,
           .host = options.host.value,
           .position = options.path.position,
           .use = options.use,
           .methods = {http::Method::get, http::Method::connect},  // CONNECT: over HTTP/2 (RFC 8441)
           .upgrades = true}};
}

}  // namespace sluice::app
