#include "rooms/hall.h"

#include "rooms/session.h"

namespace sluice::rooms {

Hall::Hall(core::Reactor& reactor, Options options, ws::ChannelPool& channels)
    : reactor_(reactor),
      options_(std::move(options)),
      router_(std::make_shared<http::Router>()),
      endpoint_(std::make_shared<http::websocket::Endpoint>(options_.websocket, *this, channels)) {}

void Hall::set_doors(const std::vector<std::shared_ptr<Door>>& doors) {
  auto router = std::make_shared<http::Router>();
  for (const std::shared_ptr<Door>& door : doors) {
    http::Router::Route route = door->route();
    route.binding->keep(door);
    (void)router->add(route);  // cannot fail, because the service has added the same routes before
  }
  router_ = std::move(router);
}

core::Async<http::Response> Hall::handle(http::Exchange& exchange) {
  if (sockets < options_.clients) return endpoint_->handle(exchange);
  ++refused;
  http::Response response = http::problem(503, "Too many clients are in rooms.");
  response.fields.add("Retry-After", "5");
  return response;
}

core::Task<void> Hall::converse(ws::Channel& channel, const http::websocket::Opening& opening) {
  ++sockets;
  struct Counted {
    std::uint32_t& sockets;
    ~Counted() { --sockets; }
  } const counted{sockets};
  Session session(reactor_, channel, opening, options_.heartbeat, options_.rooms);
  co_await session.run([this] { return router_; });
}

}  // namespace sluice::rooms
