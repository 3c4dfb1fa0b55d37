#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "http/answer_fields.h"
#include "http/client_address.h"

namespace sluice::http {

// Limits for clients.
struct ServerOptions {
  std::size_t header_limit = 16 * 1024;    // bytes of request line and fields; beyond it: 431
  std::size_t target_limit = 8 * 1024;     // bytes of the request's target; beyond it: 414
  std::size_t field_limit = 128;           // fields of a request; beyond it: 431
  std::uint64_t body_limit = 1024 * 1024;  // bytes of a body; beyond it: 413
  // The most that a handler can allow with BodyReader::allow_more(). A longer body is refused before the handler is
  // called; a body longer than the handler allows is refused when it is read. A value below body_limit allows nothing
  // more.
  std::uint64_t most_body = 0;
  std::uint64_t body_memory = UINT64_MAX;  // bytes of bodies held at the same time; beyond it: 503
  Duration header_timeout = 10s;           // from a request's first byte to its whole head: 408
  Duration body_timeout = 10s;             // if a body arrives too slowly for this long: 408
  Duration idle_timeout = 60s;             // without a request: closed
  Duration write_timeout = 30s;            // without the client reading enough: closed
  // Bytes per second that a client must send of a body, averaged over body_timeout, and must read of a response,
  // averaged over write_timeout. Only time in which the server waits for the client counts. 0: no minimum.
  std::uint32_t slowest_client = 240;
  Duration half_close_grace = 1s;   // a client that ends its side still receives what is ready within this time
  std::size_t connections = 16384;  // connections beyond this number get a 503 and are closed
  // Beyond `connections`: close the oldest connection instead of the new one, preferring connections that await no
  // response.
  bool makes_room = false;
  int descriptors =
      INT_MAX;  // connections with this descriptor number or a higher one are closed; the rest is reserved
  TroubleLog* trouble = nullptr;  // logs that no descriptors are left for connections; outlives the server
  // For responses of the server itself, and for exchanges whose pin has no fields of its own.
  std::shared_ptr<AnswerFields> answer_fields = std::make_shared<AnswerFields>();
  bool http1 = true;                  // if false, a connection without TLS is HTTP/2 from its first byte
  bool http2 = true;                  // by prior knowledge, or over TLS if the client chooses it by ALPN
  std::uint32_t http2_streams = 100;  // concurrent requests of one connection; further ones are refused
  std::uint32_t http2_resets = 500;   // requests that a client may cancel at once; 50 more are allowed each second
  std::shared_ptr<const TrustedProxies> trusted_proxies = nullptr;  // null: none
  // Connections from these addresses begin with a PROXY protocol header. Null: none do.
  std::shared_ptr<const TrustedProxies> proxy_protocol = nullptr;
};

// The protocols that a server with these options offers by ALPN, the preferred one first.
[[nodiscard]] std::vector<std::string> alpn_protocols(bool http1, bool http2);

}  // namespace sluice::http
