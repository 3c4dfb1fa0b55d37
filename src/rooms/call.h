#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/task.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/websocket/endpoint.h"
#include "rooms/publication.h"

namespace sluice::rooms {

class Door;

// The request with which a client has connected, as far as what it asks for later is judged by it.
class Caller {
 public:
  explicit Caller(const http::websocket::Opening& opening);
  Caller(const Caller&) = delete;

 private:
  friend class Call;
  std::string bytes_;
  std::vector<http::Field> fields_;  // views of bytes_
  std::string_view authority_;
  std::string_view peer_;
  const net::tls::PeerCertificate* certificate_;
  bool secure_;
};

// A message of a client, as a request of its own: it passes the policies and conditions that a request to the room's
// path would pass. Does not move, because it has views of itself.
class Call final : public http::Exchange {
 public:
  // `target`: the room's path, escaped. `body`: JSON; empty: none. `caller` outlives this.
  Call(const Caller& caller, http::Method method, std::string target, std::string body);

  // False if the path is invalid.
  [[nodiscard]] bool is_valid() const { return is_valid_; }

  // Of GET, if the answer is 200: the room that the client may enter.
  Door* door = nullptr;
  SharedName room;

 private:
  class Body;

  const std::string target_;
  const std::string body_;
  std::unique_ptr<http::BodyReader> reader_;
  std::vector<http::Field> fields_;
  std::string segments_;
  std::string path_;
  bool is_valid_ = false;
};

// The body of an answer that is in memory; empty if it is not.
[[nodiscard]] std::string_view text_of(const http::Response& response);

}  // namespace sluice::rooms
