#include "app/components/websocket/websocket.h"

#include "app/config/difference.h"

namespace sluice::app {

bool WebSocketComponent::is_same(const WebSocketComponent& other) const {
  return config::same(options, other.options) && config::same(policies, other.policies);
}

std::shared_ptr<http::websocket::Endpoint> WebSocketComponent::make(const core::Here&, const Parts& parts) const {
  const auto channels = parts.find(channels_.get());
  const auto service = parts.find(service_.get());
  http::websocket::Service* handler = &channels->echo;
  if (service) handler = &service->conversations;
  // Conversations keep the endpoint, which keeps what it uses.
  return {new http::websocket::Endpoint(options, *handler, channels->pool),
          [channels, service](const http::websocket::Endpoint* endpoint) { delete endpoint; }};
}

}  // namespace sluice::app
