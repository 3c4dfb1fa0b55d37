#pragma once

#include <string>
#include <string_view>

#include "core/ip_ranges.h"
#include "http/exchange.h"

// The client that a request comes from: the peer of the connection or, if the peer is a trusted proxy, the client that
// the proxy names.
namespace sluice::http {

// Proxies in front of the server. Their `client_field` and X-Forwarded-Proto fields are believed.
struct TrustedProxies {
  core::IpRanges addresses;
  bool unix_sockets = false;                     // trust every peer on a unix socket, where `peer` is empty
  std::string client_field = "X-Forwarded-For";  // names the client

  [[nodiscard]] bool trusts(std::string_view peer) const {
    if (peer.empty()) return unix_sockets;
    const auto ip = core::Ip::parse(peer);
    return ip && addresses.contains(*ip);
  }
};

// The part of set_client() for a connection from a trusted proxy.
void set_forwarded_client(Exchange& exchange, const TrustedProxies& proxies);

// Fills in the client of the request. `peer` and `secure` describe the connection. If `proxies` is null, no proxy is
// trusted.
//
// Each proxy appends the address of its own peer to `client_field`, so the client is the last address that does not
// belong to a trusted proxy. If all addresses are trusted, the client is the first one. An element that is not an
// address ends the search: the client is then the proxy that added this element. The scheme is the last one in
// X-Forwarded-Proto. An IPv4-mapped address in `client_field` becomes the IPv4 address, as everywhere in Request.
inline void set_client(Exchange& exchange, std::string_view peer, bool secure, const TrustedProxies* proxies) {
  Request& request = exchange.request;
  request.peer = request.connection_peer = peer;
  request.secure = secure;
  request.from_proxy = false;
  if (proxies != nullptr && proxies->trusts(peer)) set_forwarded_client(exchange, *proxies);
}

}  // namespace sluice::http
