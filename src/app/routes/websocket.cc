// [[websocket]]
#include <utility>

#include "app/routes/kind.h"
#include "app/worker.h"
#include "http/websocket/endpoint.h"

namespace sluice::app {
namespace {

class WebSocketRoute final : public Route {
 public:
  WebSocketRoute(const ws::WebSocketOptions& options, Plan::RouteId id) : options_(options), id_(id) {}

  void build(Site& site) const override {
    auto endpoint = std::make_unique<http::websocket::Endpoint>(options_, site.worker().echo());
    site.count(*endpoint);
    http::Router::Route route{.pattern = *http::Pattern::parse(options_.path.value), .upgrades = true};
    http::Handler* const handler = site.own(std::move(endpoint));
    route.handlers[static_cast<std::size_t>(http::Method::get)] = handler;
    route.handlers[static_cast<std::size_t>(http::Method::connect)] = handler;  // over HTTP/2 (RFC 8441)
    site.add(id_, std::move(route), options_.use);
  }

 private:
  const ws::WebSocketOptions& options_;
  const Plan::RouteId id_;
};

std::expected<void, Away> prepare(Preparation& preparation) {
  for (const ws::WebSocketOptions& options : preparation.options().websockets) {
    (void)preparation.security(options.use);
    preparation.plan.routes.push_back(
        std::make_unique<WebSocketRoute>(options, preparation.plan.add_name(options.path.value)));
  }
  return {};
}

}  // namespace

extern const Kind websocket_kind{prepare};

}  // namespace sluice::app
