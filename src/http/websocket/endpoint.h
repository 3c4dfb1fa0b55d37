#pragma once

#include <memory>
#include <string_view>

#include "core/task.h"
#include "http/server.h"
#include "http/websocket/handshake.h"
#include "ws/channel.h"
#include "ws/options.h"

namespace sluice::http::websocket {

// What is known of a conversation when it begins; the views last as long as it.
struct Opening {
  std::string_view peer;      // the client's address, without its port
  std::string_view protocol;  // the agreed subprotocol; empty: none
};

// What talks: one core's, for any number of conversations at a time.
class Service {
 public:
  virtual ~Service() = default;
  // One conversation, to its end. When this returns the channel says goodbye, if nobody has.
  [[nodiscard]] virtual core::Task<void> converse(ws::Channel& channel, const Opening& opening) = 0;
};

// Sends every message back.
class Echo final : public Service {
 public:
  [[nodiscard]] core::Task<void> converse(ws::Channel& channel, const Opening& opening) override;
};

// One core's handler of a [[websocket]] path: judges handshakes, and gives each conversation to the service, which
// outlives it. Conversations keep it.
class Endpoint final : public Handler, public std::enable_shared_from_this<Endpoint> {
 public:
  Endpoint(const ws::WebSocketOptions& options, Service& service);

  [[nodiscard]] core::Async<Response> handle(Request& request) override;
  // Its conversations say goodbye, with 1001, and end.
  void drain();
  [[nodiscard]] const ws::Counters& counters() const { return pool_.counters(); }

 private:
  class Conversation;

  HandshakePolicy policy_;
  ws::ChannelOptions options_;
  Service& service_;
  ws::ChannelPool pool_;
  Conversation* newest_ = nullptr;
};

}  // namespace sluice::http::websocket
