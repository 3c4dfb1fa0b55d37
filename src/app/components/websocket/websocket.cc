#include "app/components/websocket/websocket.h"

#include "app/config/difference.h"
#include "msg/frame.h"

namespace sluice::app {

bool WebSocketComponent::is_same(const WebSocketComponent& other) const {
  return config::same(options, other.options) && config::same(policies, other.policies);
}

std::shared_ptr<http::websocket::Endpoint> WebSocketComponent::make(const core::Here&, const Parts& parts) const {
  const auto channels = parts.find(channels_.get());
  const auto service = parts.find(service_.get());
  http::websocket::Service* handler = &channels->echo;
  ws::WebSocketOptions limits = options;
  if (service) {
    handler = &service->conversations;
    limits.max_message.bytes += msg::longest_header_size;  // the limit is for a frame's body
  }
  // Conversations keep the endpoint, which keeps what it uses.
  return {new http::websocket::Endpoint(limits, *handler, channels->pool),
          [channels, service](const http::websocket::Endpoint* endpoint) { delete endpoint; }};
}

}  // namespace sluice::app
