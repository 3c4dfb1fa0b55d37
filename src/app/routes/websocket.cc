// [[websocket]]
#include <utility>

#include "app/routes/kind.h"
#include "app/worker.h"
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

std::expected<void, Away> prepare_websocket(Preparation& preparation) {
  for (const ws::WebSocketOptions& options : preparation.options().websockets) {
    (void)preparation.security(options.use);
    Plan& plan = preparation.plan;
    plan.routes.push_back(std::make_shared<WebSocketRoute>(
        plan.add(std::make_shared<WebSocketComponent>(options, plan.policies_of(options.use)), preparation.previous),
        plan.add_name(options.host.value + options.path.value)));
  }
  return {};
}

}  // namespace

extern const Kind websocket_kind{prepare_websocket};

}  // namespace sluice::app
