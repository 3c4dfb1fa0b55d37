#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/here.h"
#include "core/task.h"
#include "http/binding.h"
#include "http/claims.h"
#include "http/exchange.h"
#include "http/handler.h"
#include "http/router.h"
#include "http/websocket/endpoint.h"
#include "rooms/call.h"
#include "rooms/rooms.h"
#include "ws/channel.h"
#include "ws/options.h"

namespace sluice::rooms {

// How the values of a column are written in paths. A room has one path: others are not found.
enum class ValueForm : std::uint8_t { text, integer, uuid };

// Decides whose requests a room admits. The application implements it.
class Gate {
 public:
  virtual ~Gate() = default;
  // A refusal, or nothing.
  [[nodiscard]] virtual core::Task<std::optional<http::Response>> ask(http::Exchange& exchange) = 0;
  // Whether clients with these claims, which may be null, may stay in the room; by index. Nothing: the database cannot
  // say now.
  [[nodiscard]] virtual core::Task<std::optional<std::vector<bool>>> judge(
      const SharedName& room, std::span<const std::shared_ptr<const http::Claims>> claims) = 0;
};

struct DoorOptions {
  http::Pattern pattern;
  std::string host;
  std::vector<ValueForm> forms;  // of the path's parameters
  std::uint32_t clients = 100'000;
  Duration heartbeat = 25s;
  Duration retry = 2s;
  ws::WebSocketOptions websocket;
};

// A client in a room.
class Seat : public Follower {
 public:
  std::shared_ptr<const http::Claims> claims;  // null if no policy has authenticated it
  // It may no longer stay.
  virtual void expel() = 0;
  // The server ends. It closes WebSockets itself.
  virtual void server_ends() {}
};

// One core's entrance to the rooms of one [[room]]: streams, WebSockets, history and publishing.
class Door final : public http::Handler,
                   public http::websocket::Service,
                   public Rooms::Judge,
                   public std::enable_shared_from_this<Door> {
 public:
  struct Parts {
    std::shared_ptr<Rooms> rooms;
    std::unique_ptr<Gate> gate;
    std::unique_ptr<http::Handler> history;  // of GET without a stream
    std::unique_ptr<http::Handler> publish;  // of POST; null: clients cannot publish
  };
  Door(const core::Here& here, DoorOptions options, Parts parts, ws::ChannelPool& channels);
  ~Door() override;

  // GET, and CONNECT for a WebSocket over HTTP/2.
  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;
  // The policies in front, for Calls: of GET and of POST. Called before the first Call, and when they may have changed.
  void set_filters(http::Binding::Filters filters, http::Binding::Filters publish_filters);
  // The route for Calls.
  [[nodiscard]] http::Router::Route route();
  [[nodiscard]] const std::shared_ptr<http::Router>& router() const { return router_; }
  // The handler of POST; null: clients cannot publish.
  [[nodiscard]] http::Handler* publisher() { return parts_.publish ? publisher_.get() : nullptr; }
  // The configuration has no such rooms any more: ends everything, and calls `ended`.
  void end();
  std::function<void()> ended;
  // The server ends: streams end.
  void drain();
  // Keeps the object alive as long as this.
  void keep(std::shared_ptr<const void> object) { kept_.push_back(std::move(object)); }
  [[nodiscard]] Readings readings() const;

  [[nodiscard]] Rooms& rooms() { return *parts_.rooms; }
  // The publication's message, which is compressed once for all clients. Valid until the caller suspends.
  [[nodiscard]] ws::SharedMessage& message_of(const SharedPublication& publication);
  [[nodiscard]] const DoorOptions& options() const { return options_; }
  [[nodiscard]] core::Reactor& reactor() { return here_.reactor; }
  [[nodiscard]] Duration retry();

  std::uint32_t streams = 0;  // gauge
  std::uint32_t sockets = 0;  // gauge
  std::uint64_t refused = 0;  // more clients than allowed

 private:
  class Inner;
  class Publisher;

  [[nodiscard]] SharedName name_of(std::span<const std::string_view> values) const;
  [[nodiscard]] SharedName name_of(const http::Request& request) const;
  [[nodiscard]] core::Task<http::Response> enter(http::Exchange& exchange);
  [[nodiscard]] core::Task<http::Response> stream(http::Exchange& exchange, SharedName room);
  [[nodiscard]] core::Task<http::Response> admit(Call& call);
  [[nodiscard]] core::Task<void> converse(ws::Channel& channel, const http::websocket::Opening& opening) override;
  [[nodiscard]] bool keeps_requests() const override { return true; }
  [[nodiscard]] std::shared_ptr<const void> keep_alive() override { return shared_from_this(); }
  [[nodiscard]] core::Task<bool> judge(std::shared_ptr<View> room) override;

  std::vector<std::shared_ptr<const void>> kept_;  // the last to be destroyed
  const core::Here here_;
  const DoorOptions options_;
  const Parts parts_;
  const std::unique_ptr<http::Handler> inner_;
  const std::unique_ptr<http::Handler> publisher_;
  const std::shared_ptr<http::websocket::Endpoint> endpoint_;
  http::Binding::Filters filters_;
  http::Binding::Filters publish_filters_;
  std::shared_ptr<http::Router> router_;
  std::minstd_rand random_;
  std::deque<std::pair<SharedPublication, ws::SharedMessage>> messages_;  // the last ones that were sent
};

// The position in a query: `?offset=12&epoch=48151`.
[[nodiscard]] std::optional<Position> position_of(std::string_view query);
// The answer to a client that cannot join.
[[nodiscard]] http::Response refusal_of(Rooms::Refusal why);

inline constexpr Duration join_patience = 10s;

}  // namespace sluice::rooms
