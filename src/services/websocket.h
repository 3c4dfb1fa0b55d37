#pragma once

#include <memory>
#include <string>

#include "http/handler.h"
#include "http/websocket/endpoint.h"
#include "msg/sessions.h"
#include "ws/channel.h"
#include "ws/options.h"

namespace sluice::services {

// Turns WebSocket conversations into sessions. Belongs to one core; `sessions` outlive it.
class WebSocketSessions final : public http::websocket::Service {
 public:
  explicit WebSocketSessions(msg::Sessions& sessions) : sessions_(sessions) {}
  [[nodiscard]] core::Task<void> converse(ws::Channel& channel, const http::websocket::Opening& opening) override;

 private:
  msg::Sessions& sessions_;
};

// The handler of an HTTP server that has nothing but WebSockets, at one path. Other requests get 404.
class WebSocketSite final : public http::Handler {
 public:
  WebSocketSite(msg::Sessions& sessions, const ws::WebSocketOptions& options);
  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  const std::string path_;
  WebSocketSessions service_;
  ws::ChannelPool channels_;
  std::shared_ptr<http::websocket::Endpoint> endpoint_;
};

}  // namespace sluice::services
