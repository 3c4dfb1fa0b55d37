#include "runtime/address_holder.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <sys/socket.h>

namespace sluice::runtime {
namespace {

namespace fs = std::filesystem;

// The inode of a listening socket on this port, or empty. A table of /proc/net has a line for each socket: its number,
// ADDRESS:PORT of both sides and the state, all in hexadecimal, and the inode in the tenth column.
std::string listening_inode(const char* table, std::uint16_t port) {
  std::ifstream lines(table);
  const std::string end = fmt::format(":{:04X}", port);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
    if (state == "0A" && local.ends_with(end)) return inode;
  }
  return {};
}

bool has_open(const fs::path& process, std::string_view target) {
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (fs::read_symlink(at->path(), unreadable) == target) return true;
  }
  return false;
}

}  // namespace

std::string holder_of(const core::Address& address) {
  if (address.family() == AF_UNIX) return {};
  std::string inode = listening_inode("/proc/net/tcp", address.port());
  if (inode.empty()) inode = listening_inode("/proc/net/tcp6", address.port());
  if (inode.empty()) return {};
  const std::string target = "socket:[" + inode + "]";
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string process = at->path().filename();
    if (process.find_first_not_of("0123456789") != std::string::npos || !has_open(at->path(), target)) continue;
    std::string name;
    std::getline(std::ifstream(at->path() / "comm"), name);
    return fmt::format(" (by {}, process {})", name, process);
  }
  return {};
}

}  // namespace sluice::runtime
