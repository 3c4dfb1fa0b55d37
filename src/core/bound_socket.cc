#include "core/bound_socket.h"

#include <cerrno>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace sluice::core {
namespace {

// Removes the file of a unix socket if no process listens on it any more; otherwise it would block binding. A socket
// that accepts connections is kept. Returns false if the path is not a socket; such a file is never removed.
bool unlink_stale_socket(const Address& address) {
  const char* const path = reinterpret_cast<const sockaddr_un*>(address.get())->sun_path;
  struct stat status{};
  if (::lstat(path, &status) != 0) return true;
  if (!S_ISSOCK(status.st_mode)) return false;
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return true;
  if (::connect(probe, address.get(), address.size()) != 0 && errno == ECONNREFUSED) ::unlink(path);
  ::close(probe);
  return true;
}

}  // namespace

Result<int> bind_socket(const Address& address, bool reuse_port, bool blocks) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | (blocks ? 0 : SOCK_NONBLOCK), 0);
  if (fd < 0) return fail(Errc::system, errno);
  const int on = 1;
  const int off = 0;
  if (address.family() == AF_UNIX) {
    if (!unlink_stale_socket(address)) {
      ::close(fd);
      return fail(Errc::system, EEXIST);
    }
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

Result<int> share_listener(int socket) {
  const int fd = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return fail(Errc::system, errno);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // of no effect on a unix socket
  if (::fcntl(fd, F_SETFL, O_NONBLOCK) == 0) return fd;
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
