#include "core/bound_socket.h"

#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace sluice::core {
namespace {

// A socket file that nobody listens on any more is in the way of its successor; one that answers is left alone.
void unlink_stale_socket(const Address& address) {
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return;
  if (::connect(probe, address.get(), address.size()) != 0 && errno == ECONNREFUSED) {
    ::unlink(reinterpret_cast<const sockaddr_un*>(address.get())->sun_path);
  }
  ::close(probe);
}

}  // namespace

Result<int> bind_socket(const Address& address, bool reuse_port, bool blocks) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | (blocks ? 0 : SOCK_NONBLOCK), 0);
  if (fd < 0) return fail(Errc::system, errno);
  const int on = 1;
  const int off = 0;
  if (address.family() == AF_UNIX) {
    unlink_stale_socket(address);
  } else {
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (reuse_port) ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // accepted sockets inherit it
    if (address.family() == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(fd, address.get(), address.size()) == 0) return fd;
  const int error = errno;
  ::close(fd);
  return fail(Errc::system, error);
}

Result<Address> address_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return fail(Errc::system, errno);
  return Address(reinterpret_cast<sockaddr*>(&address), size);
}

Result<Address> claim(const Address& address) {
  const auto fd = bind_socket(address, false, false);
  if (!fd) return std::unexpected(fd.error());
  auto bound = address_of(*fd);
  ::close(*fd);
  return bound;
}

}  // namespace sluice::core
