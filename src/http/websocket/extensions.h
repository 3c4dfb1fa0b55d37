#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "http/fields.h"
#include "ws/deflate.h"

// Negotiation of permessage-deflate (RFC 7692) in a handshake.
namespace sluice::http::websocket {

// The parameters that the server accepts.
struct DeflatePolicy {
  bool context_takeover = false;  // keep the dictionary from message to message, in both directions
  std::uint8_t window_bits = 15;  // the largest window, 9 to 15
};

struct Negotiation {
  enum class Outcome : std::uint8_t { none, agreed, malformed };
  Outcome outcome = Outcome::none;
  ws::DeflateParameters parameters;
  std::string response;  // the value of Sec-WebSocket-Extensions, when agreed
};

// Accepts the first acceptable offer of permessage-deflate in the request's Sec-WebSocket-Extensions fields and ignores
// the others. The outcome is `malformed` if a field is not a list of extensions (RFC 6455, 9.1).
[[nodiscard]] Negotiation negotiate_deflate(std::span<const Field> fields, const DeflatePolicy& policy);

}  // namespace sluice::http::websocket
