#pragma once

#include <memory>
#include <utility>

#include "app/components/component.h"
#include "app/components/policies.h"
#include "app/components/service/service.h"
#include "http/websocket/endpoint.h"
#include "ws/channel.h"
#include "ws/options.h"

namespace sluice::app {

// Shared by all WebSocket connections of a core.
struct WebSocketChannels {
  http::websocket::Echo echo;
  ws::ChannelPool pool;
};
class WebSocketChannelsComponent final : public ComponentOf<WebSocketChannelsComponent, WebSocketChannels> {
 public:
  [[nodiscard]] bool is_same(const WebSocketChannelsComponent&) const { return true; }

 private:
  std::shared_ptr<WebSocketChannels> make(const core::Here&, const Parts&) const override {
    return std::make_shared<WebSocketChannels>();
  }
  Readings readings_of(WebSocketChannels& channels) const override { return channels.pool.counters().readings(); }
};

// [[websocket]]. Its connections go on if the options and the policies are unchanged.
class WebSocketComponent final : public ComponentOf<WebSocketComponent, http::websocket::Endpoint> {
 public:
  // `service`: null for a built-in handler.
  WebSocketComponent(ws::WebSocketOptions of, Policies used, std::shared_ptr<const WebSocketChannelsComponent> on,
                     std::shared_ptr<const ServiceComponent> service)
      : options(std::move(of)), policies(std::move(used)), channels_(std::move(on)), service_(std::move(service)) {}

  [[nodiscard]] bool is_same(const WebSocketComponent& other) const;
  const ws::WebSocketOptions options;
  const Policies policies;

 private:
  std::shared_ptr<http::websocket::Endpoint> make(const core::Here& here, const Parts& parts) const override;
  void retire(http::websocket::Endpoint& endpoint) const override { endpoint.drain(); }

  const std::shared_ptr<const WebSocketChannelsComponent> channels_;
  const std::shared_ptr<const ServiceComponent> service_;
};

}  // namespace sluice::app
