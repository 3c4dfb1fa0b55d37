#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "http/handler.h"
#include "http/router.h"
#include "http/websocket/endpoint.h"
#include "rooms/door.h"
#include "ws/channel.h"
#include "ws/options.h"

namespace sluice::rooms {

// One core's handler of [rooms]: WebSockets whose clients may be in several rooms.
class Hall final : public http::Handler, public http::websocket::Service, public std::enable_shared_from_this<Hall> {
 public:
  struct Options {
    ws::WebSocketOptions websocket;
    std::uint32_t clients = 100'000;
    std::uint32_t rooms = 100;  // that one client may be in
    Duration heartbeat = 25s;
  };
  Hall(core::Reactor& reactor, Options options, ws::ChannelPool& channels);

  // The rooms that there are from now on.
  void set_doors(const std::vector<std::shared_ptr<Door>>& doors);
  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;
  void end() { endpoint_->drain(); }

  std::uint32_t sockets = 0;  // gauge
  std::uint64_t refused = 0;  // more clients than allowed

 private:
  [[nodiscard]] core::Task<void> converse(ws::Channel& channel, const http::websocket::Opening& opening) override;
  [[nodiscard]] bool keeps_requests() const override { return true; }
  [[nodiscard]] std::shared_ptr<const void> keep_alive() override { return shared_from_this(); }

  core::Reactor& reactor_;
  const Options options_;
  std::shared_ptr<http::Router> router_;
  const std::shared_ptr<http::websocket::Endpoint> endpoint_;
};

}  // namespace sluice::rooms
