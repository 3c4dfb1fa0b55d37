#include "runtime/sockets.h"

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/bound_socket.h"
#include "runtime/address_holder.h"

namespace sluice::runtime {
namespace {

std::string path_of(const core::Address& address) { return address.text().substr(std::string_view("unix:").size()); }

// Removes only a socket. Any other file at the path is not ours.
void unlink_socket(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(path.c_str());
}

}  // namespace

void SocketFiles::add(const net::Listening& claimed) {
  const core::Address& address = claimed.address;
  if (address.family() != AF_UNIX || claimed.shared >= 0) return;
  const std::lock_guard lock(mutex_);
  if (ended_) {
    unlink_socket(path_of(address));
  } else {
    paths_.insert(path_of(address));
  }
}

void SocketFiles::remove(const core::Address& address) {
  if (address.family() != AF_UNIX) return;
  const std::lock_guard lock(mutex_);
  if (paths_.erase(path_of(address)) != 0) unlink_socket(path_of(address));
}

void SocketFiles::end() {
  const std::lock_guard lock(mutex_);
  for (const std::string& path : paths_) unlink_socket(path);
  paths_.clear();
  ended_ = true;
}

PassedSockets::PassedSockets(int count) {
  constexpr int first = 3;
  for (int descriptor = first; descriptor < first + count; ++descriptor) {
    const auto option = [&](int name) {
      int value = 0;
      socklen_t size = sizeof value;
      return ::getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
    };
    const auto address = core::address_of(descriptor);
    if (!address || option(SO_TYPE) != SOCK_STREAM || option(SO_ACCEPTCONN) != 1) {
      throw std::runtime_error(
          fmt::format("descriptor {} from the service manager is not a listening stream socket", descriptor));
    }
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    sockets_.push_back({descriptor, address->text()});
  }
}

PassedSockets::~PassedSockets() {
  for (const Socket& socket : sockets_) ::close(socket.descriptor);
}

int PassedSockets::find(const core::Address& address) {
  const auto found = std::ranges::find(sockets_, address.text(), &Socket::address);
  if (found == sockets_.end()) return -1;
  found->is_found = true;
  return found->descriptor;
}

void PassedSockets::check_all_found() const {
  for (const Socket& socket : sockets_) {
    if (socket.is_found) continue;
    throw std::runtime_error(fmt::format(
        "the service manager has passed a socket for {}, and the configuration does not listen there", socket.address));
  }
}

// Every core binds with SO_REUSEPORT, so a second program could bind an address that is in use. Therefore each address
// is first bound without SO_REUSEPORT. This also turns port 0 into the port that all cores share.
std::expected<net::Listening, std::string> claim(const std::string& text, PassedSockets& passed) {
  const auto address = core::Address::parse(text);
  if (!address) return std::unexpected("\"" + text + "\" is not an address to listen on");
  if (const int socket = passed.find(*address); socket >= 0)
    return net::Listening{.address = *address, .shared = socket};
  auto claimed = core::claim(*address);
  if (!claimed && claimed.error().detail == EAFNOSUPPORT && text.starts_with("*:")) {
    // Without IPv6, "every address" means every IPv4 address.
    return claim("0.0.0.0:" + std::to_string(address->port()), passed);
  }
  if (claimed) return net::Listening{.address = *claimed};
  return std::unexpected("cannot listen on " + text + ": " + std::generic_category().message(claimed.error().detail) +
                         (claimed.error().detail == EADDRINUSE ? holder_of(*address) : ""));
}

}  // namespace sluice::runtime
