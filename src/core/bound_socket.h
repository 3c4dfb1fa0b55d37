#pragma once

#include "base/result.h"
#include "core/address.h"

namespace sluice::core {

// Creates and binds a stream socket that does not listen yet. If `blocks`, its accept() will block. Removes the file of
// a unix socket that no process listens on any more. EEXIST: the path is not a socket.
[[nodiscard]] Result<int> bind_socket(const Address& address, bool reuse_port, bool blocks);
// Another descriptor of a listening socket, whose accept() does not block then, not even in other processes.
[[nodiscard]] Result<int> share_listener(int socket);
// The address that the socket is bound to.
[[nodiscard]] Result<Address> address_of(int socket);

// Checks that nobody else has bound `address`, and returns the address with its actual port if the port was 0.
// EADDRINUSE: another process has it. The probe never listens: a client that waits for the server would connect to it
// and then lose the connection.
[[nodiscard]] Result<Address> claim(const Address& address);

}  // namespace sluice::core
