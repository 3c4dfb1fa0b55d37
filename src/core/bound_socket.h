#pragma once

#include "base/result.h"
#include "core/address.h"

namespace sluice::core {

// A stream socket that is bound and does not listen yet; its accept() will wait if `blocks`. The file of a unix socket
// that nobody listens on any more makes room.
[[nodiscard]] Result<int> bind_socket(const Address& address, bool reuse_port, bool blocks);
// Where the socket is bound.
[[nodiscard]] Result<Address> address_of(int socket);

// Whether `address` can be had alone, and what it is: port 0 has become a port. EADDRINUSE: somebody has it. Nothing
// ever listens there meanwhile: who waits for a server would take that for the server, and be cut off.
[[nodiscard]] Result<Address> claim(const Address& address);

}  // namespace sluice::core
