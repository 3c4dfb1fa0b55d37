#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/task.h"
#include "http/claims.h"
#include "http/server.h"
#include "http/websocket/handshake.h"
#include "ws/channel.h"
#include "ws/options.h"

namespace sluice::http::websocket {

// The facts about a conversation when it begins. The views are valid until it ends.
struct Opening {
  std::string_view peer;      // the client's address, without its port
  std::string_view protocol;  // the agreed subprotocol; empty: none
  std::string_view path;      // of the handshake's request, decoded
  std::string_view query;     // of the handshake's request, as it was sent, without '?'
  std::span<const std::pair<std::string, std::string>> parameters;  // of the path: names and values
  const std::shared_ptr<const Claims>& claims;  // about the client; null if no policy has authenticated it
  bool secure;           // over TLS
  // Of the handshake's request, only for a service that keeps requests.
  std::span<const Field> fields;
  std::string_view authority;
  const net::tls::PeerCertificate* certificate;  // null: none
};

// The application behind WebSocket conversations. Belongs to one core and serves any number of conversations at a time.
class Service {
 public:
  virtual ~Service() = default;
  // Runs one conversation until it ends. When this returns, the channel is closed unless it is closed already.
  [[nodiscard]] virtual core::Task<void> converse(ws::Channel& channel, const Opening& opening) = 0;
  // Whether its openings have the fields of the request, which takes memory for each conversation.
  [[nodiscard]] virtual bool keeps_requests() const { return false; }
  // Returns an object that a conversation keeps alive besides the endpoint, from the handshake on.
  [[nodiscard]] virtual std::shared_ptr<const void> keep_alive() { return nullptr; }
};

// Sends every message back.
class Echo final : public Service {
 public:
  [[nodiscard]] core::Task<void> converse(ws::Channel& channel, const Opening& opening) override;
};

// One core's handler of a [[websocket]] path: checks handshakes and passes each conversation to the service. The
// service outlives the endpoint. Conversations keep the endpoint alive.
class Endpoint final : public Handler, public std::enable_shared_from_this<Endpoint> {
 public:
  // `channels` outlive the endpoint too.
  Endpoint(const ws::WebSocketOptions& options, Service& service, ws::ChannelPool& channels);

  [[nodiscard]] core::Async<Response> handle(Exchange& exchange) override;
  // Closes its conversations with code 1001.
  void drain();

 private:
  class Conversation;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> parameters_of(const Request& request) const;

  const std::vector<std::string> names_;  // of the path's parameters
  HandshakePolicy policy_;
  ws::ChannelOptions options_;
  Service& service_;
  ws::ChannelPool& channels_;
  Conversation* newest_ = nullptr;
};

}  // namespace sluice::http::websocket
