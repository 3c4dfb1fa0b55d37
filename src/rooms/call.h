#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/task.h"
#include "http/inner_request.h"
#include "http/websocket/endpoint.h"
#include "rooms/publication.h"

namespace sluice::rooms {

class Door;

// A message of a client, as a request of its own: it passes the policies and conditions that a request to the room's
// path would pass.
class Call final : public http::InnerRequest {
 public:
  // `opening`: the request with which the client has connected. `target`: the room's path, escaped. `body`: JSON;
  // empty: none.
  Call(const http::websocket::Opening& opening, http::Method method, std::string target, std::string body);

  // Of GET, if the answer is 200: the room that the client may enter.
  Door* door = nullptr;
  SharedName room;
};

// The body of an answer that is in memory; empty if it is not.
[[nodiscard]] std::string_view text_of(const http::Response& response);

}  // namespace sluice::rooms
