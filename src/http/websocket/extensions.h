#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "http/fields.h"
#include "ws/deflate.h"

// What a handshake agrees on of permessage-deflate (RFC 7692).
namespace sluice::http::websocket {

// What we would agree to.
struct DeflatePolicy {
  bool context_takeover = false;  // a dictionary that lasts from message to message, in both directions
  std::uint8_t window_bits = 15;  // the largest window, 9 to 15
};

struct Negotiation {
  enum class Outcome : std::uint8_t { none, agreed, malformed };
  Outcome outcome = Outcome::none;
  ws::DeflateParameters parameters;
  std::string response;  // the value of Sec-WebSocket-Extensions, when agreed
};

// Takes the first offer of permessage-deflate among the request's Sec-WebSocket-Extensions that can be met; others are
// passed over. Malformed: a field is no list of extensions (RFC 6455, 9.1).
[[nodiscard]] Negotiation negotiate_deflate(std::span<const Field> fields, const DeflatePolicy& policy);

}  // namespace sluice::http::websocket
