#include "app/components/websocket/websocket.h"

#include "app/config/difference.h"

namespace sluice::app {

bool WebSocketComponent::is_same(const WebSocketComponent& other) const {
  return config::same(options, other.options) && config::same(policies, other.policies);
}

std::shared_ptr<http::websocket::Endpoint> WebSocketComponent::make(const core::Here&, const Parts& parts) const {
  const auto channels = parts.find(channels_.get());
  // Conversations keep the endpoint, which keeps the channels.
  return {new http::websocket::Endpoint(options, channels->echo, channels->pool),
          [channels](const http::websocket::Endpoint* endpoint) { delete endpoint; }};
}

}  // namespace sluice::app
