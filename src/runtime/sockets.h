#pragma once

#include <expected>
#include <mutex>
#include <set>
#include <string>

#include "core/address.h"

namespace sluice::runtime {

// The files of claimed unix sockets, which are removed when the program ends. Thread-safe.
class SocketFiles {
 public:
  SocketFiles() = default;
  SocketFiles(const SocketFiles&) = delete;
  ~SocketFiles() { end(); }

  void add(const core::Address& address);
  void remove(const core::Address& address);
  // Removes all files. From now on add() removes its file at once.
  void end();

 private:
  std::mutex mutex_;
  std::set<std::string> paths_;
  bool ended_ = false;
};

// Claims an address to listen on ("127.0.0.1:8080", "*:8080", "unix:/run/a.sock"), as core::claim() does, and returns
// it with its actual port. The error names the process that has the address.
[[nodiscard]] std::expected<core::Address, std::string> claim(const std::string& text);

}  // namespace sluice::runtime
