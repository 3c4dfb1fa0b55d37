#include "services/websocket.h"

#include <utility>

#include "http/claims.h"
#include "msg/channel_session.h"

namespace sluice::services {

core::Task<void> WebSocketSessions::converse(ws::Channel& channel, const http::websocket::Opening& opening) {
  msg::Handshake handshake{.peer = std::string(opening.peer),
                           .secure = opening.secure,
                           .path = std::string(opening.path),
                           .query = std::string(opening.query),
                           .protocol = std::string(opening.protocol),
                           .parameters = {opening.parameters.begin(), opening.parameters.end()}};
  if (opening.claims != nullptr) {
    for (const http::Claim& claim : opening.claims->all()) handshake.claims.emplace_back(claim.path, claim.text);
  }
  return msg::run_session(sessions_, channel, std::move(handshake));
}

WebSocketSite::WebSocketSite(msg::Sessions& sessions, const ws::WebSocketOptions& options)
    : path_(options.path.value),
      service_(sessions),
      endpoint_(std::make_shared<http::websocket::Endpoint>(options, service_, channels_)) {}

core::Async<http::Response> WebSocketSite::handle(http::Exchange& exchange) {
  if (exchange.request.path != path_) return http::problem(404, "Only the path " + path_ + " is served.");
  return endpoint_->handle(exchange);
}

}  // namespace sluice::services
