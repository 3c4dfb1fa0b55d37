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

// Which clients may open a conversation, and how.
struct HandshakePolicy {
  std::vector<std::string> origins;      // such as "https://example.com"; "*": any; empty: only the server's own
  std::vector<std::string> protocols;    // subprotocols that the service supports
  std::optional<DeflatePolicy> deflate;  // nullopt: no compression
};

// The result of a successful handshake.
struct Handshake {
  std::string accept;      // Sec-WebSocket-Accept; empty over HTTP/2
  std::string protocol;    // the first of the client's subprotocols that the service supports; empty: none
  std::string extensions;  // Sec-WebSocket-Extensions; empty: none
  std::optional<ws::DeflateParameters> deflate;
};

// Checks the opening handshake of RFC 6455, 4.2, or RFC 8441, 5. The error is the response that refuses it: 426 (not a
// WebSocket request, or another version; over HTTP/2 400, or 501 for another protocol), 400 (malformed), or 403 (its
// origin is not allowed).
[[nodiscard]] std::expected<Handshake, Response> judge_handshake(const Request& request, const HandshakePolicy& policy);

// Makes a Sec-WebSocket-Key for a request of a client.
[[nodiscard]] std::string make_key();
// The Sec-WebSocket-Accept for a Sec-WebSocket-Key.
[[nodiscard]] std::string accept_for(std::string_view key);

// Whether the origin of a page ("https://example.com:8443") has the same host and port as the authority
// ("example.com:8443"). The scheme only determines the default port.
[[nodiscard]] bool is_same_origin(std::string_view origin, std::string_view authority);

}  // namespace sluice::http::websocket
