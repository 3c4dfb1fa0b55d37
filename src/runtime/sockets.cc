#include "runtime/sockets.h"

#include <cerrno>
#include <string_view>
#include <system_error>

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

void SocketFiles::add(const core::Address& address) {
  if (address.family() != AF_UNIX) return;
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

// Every core binds with SO_REUSEPORT, so a second program could bind an address that is in use. Therefore each address
// is first bound without SO_REUSEPORT. This also turns port 0 into the port that all cores share.
std::expected<core::Address, std::string> claim(const std::string& text) {
  const auto address = core::Address::parse(text);
  if (!address) return std::unexpected("\"" + text + "\" is not an address to listen on");
  auto claimed = core::claim(*address);
  if (!claimed && claimed.error().detail == EAFNOSUPPORT && text.starts_with("*:")) {
    // Without IPv6, "every address" means every IPv4 address.
    claimed = core::claim(*core::Address::from_ip("0.0.0.0", address->port()));
  }
  if (claimed) return *claimed;
  return std::unexpected("cannot listen on " + text + ": " + std::generic_category().message(claimed.error().detail) +
                         (claimed.error().detail == EADDRINUSE ? holder_of(*address) : ""));
}

}  // namespace sluice::runtime
