#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::http {

// The header of the PROXY protocol, version 1 or 2 (haproxy.org/download/2.6/doc/proxy-protocol.txt). A proxy sends it
// at the start of a forwarded connection to name the client.
struct ProxyHeader {
  enum class State : std::uint8_t {
    need_more,  // at least `wanted` more bytes are needed, and all of them belong to the header
    complete,
    wrong,  // not a valid header
  };

  State state = State::wrong;
  std::size_t wanted = 0;
  // The client's address, as core::Address::ip() writes it. Empty if the header names no client, for example in a
  // health check by the proxy. The client is then the peer of the connection.
  std::string client;

  // `received`: all bytes received so far, with nothing after the header. A header of more than 4 KiB is `wrong`.
  [[nodiscard]] static ProxyHeader parse(std::string_view received);
};

}  // namespace sluice::http
