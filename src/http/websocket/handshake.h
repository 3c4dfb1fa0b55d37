#pragma once

#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/request.h"
#include "http/response.h"
#include "http/websocket/extensions.h"

namespace sluice::http::websocket {

// Whom a conversation is granted.
struct HandshakePolicy {
  std::vector<std::string> origins;      // "https://example.com", "*": any; empty: the server's own
  std::vector<std::string> protocols;    // Sec-WebSocket-Protocol, that the service speaks
  std::optional<DeflatePolicy> deflate;  // nothing: no compression
};

// What was agreed.
struct Handshake {
  std::string accept;      // Sec-WebSocket-Accept; empty over HTTP/2
  std::string protocol;    // the first of the client's that the service speaks; empty: none
  std::string extensions;  // Sec-WebSocket-Extensions; empty: none
  std::optional<ws::DeflateParameters> deflate;
};

// Judges the opening handshake of RFC 6455, 4.2, and of RFC 8441, 5. The other way: the answer that refuses it: 426
// (not a WebSocket request, or of another version; over HTTP/2 400, or 501 for another protocol), 400 (malformed), 403
// (its origin may not).
[[nodiscard]] std::expected<Handshake, Response> judge_handshake(const Request& request, const HandshakePolicy& policy);

// The Sec-WebSocket-Accept for a Sec-WebSocket-Key.
[[nodiscard]] std::string accept_for(std::string_view key);

// Whether a page of this origin ("https://example.com:8443") is one that the authority itself ("example.com:8443")
// serves. The scheme only says which port may go without saying.
[[nodiscard]] bool is_same_origin(std::string_view origin, std::string_view authority);

}  // namespace sluice::http::websocket
