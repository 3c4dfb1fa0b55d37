#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "core/reactor.h"
#include "core/task.h"
#include "http/router.h"
#include "http/websocket/endpoint.h"
#include "rooms/call.h"
#include "rooms/door.h"
#include "rooms/protocol.h"
#include "ws/channel.h"

namespace sluice::rooms {

// A client over a WebSocket, in any number of rooms. Lives as long as the conversation.
class Session {
 public:
  using Routes = std::function<std::shared_ptr<http::Router>()>;

  // `most_rooms`: that it may be in.
  Session(core::Reactor& reactor, ws::Channel& channel, const http::websocket::Opening& opening, Duration heartbeat,
          std::size_t most_rooms);
  Session(const Session&) = delete;
  ~Session();

  // For a client that has connected at the path of a room: it is in the room from now on, and in no other. Returns
  // false if it cannot be.
  [[nodiscard]] core::Task<bool> begin(std::shared_ptr<Door> door, SharedName room, std::optional<Position> since);
  // Takes the client's messages until the conversation is over. `routes`: the rooms that there are, asked for each
  // message.
  [[nodiscard]] core::Task<void> run(Routes routes);

 private:
  class Subscription;

  core::Task<void> perform(Command command, const Routes& routes);
  core::Task<void> subscribe(const Command& command, const Routes& routes);
  void unsubscribe(const Command& command);
  core::Task<void> publish(Command command, const Routes& routes);
  [[nodiscard]] Subscription* find(std::string_view room);
  void refuse(const Command& command, const http::Response& response);
  // Ends a subscription that the client has not ended itself.
  void drop(Subscription& subscription, int status, std::string_view detail);

  void say(std::string message);
  void has_news(Subscription& subscription);
  // Sends as much as the client reads.
  void pump();
  // Sends until a send must wait, and returns that.
  [[nodiscard]] std::optional<core::Task<Result<void>>> send_some();
  core::Task<void> finish(core::Task<Result<void>> waiting);
  core::Task<void> beat(Duration pause);

  core::Reactor& reactor_;
  ws::Channel& channel_;
  const http::websocket::Opening& opening_;  // lives as long as the conversation
  const std::size_t most_rooms_;
  bool has_own_room_ = false;
  CommandReader reader_;
  std::vector<std::unique_ptr<Subscription>> subscriptions_;
  std::vector<Subscription*> fresh_;  // those with news, in their order
  std::deque<std::string> answers_;   // not sent yet
  std::string sent_answer_;           // what is being sent
  SharedPublication sent_publication_;
  bool is_waiting_ = false;  // finish() runs
  Instant last_sent_{};
  core::TaskGroup tasks_;
};

}  // namespace sluice::rooms
