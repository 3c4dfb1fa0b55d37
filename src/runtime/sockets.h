#pragma once

#include <expected>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/address.h"
#include "net/acceptor.h"

namespace sluice::runtime {

// The files of claimed unix sockets, which are removed when the program ends. Thread-safe.
class SocketFiles {
 public:
  SocketFiles() = default;
  SocketFiles(const SocketFiles&) = delete;
  ~SocketFiles() { end(); }

  // Ignores addresses whose socket the service manager has passed: the file is the manager's.
  void add(const net::Listening& claimed);
  void remove(const core::Address& address);
  // Removes all files. From now on add() removes its file at once.
  void end();

 private:
  std::mutex mutex_;
  std::set<std::string> paths_;
  bool ended_ = false;
};

// Listening sockets that the service manager has passed to this process (socket activation, sd_listen_fds(3)). They
// stay open as long as this object, and clients that are not accepted then wait for the next process.
class PassedSockets {
 public:
  // Takes the descriptors from 3 on. Throws std::runtime_error if one is not a listening stream socket.
  explicit PassedSockets(int count);
  PassedSockets(const PassedSockets&) = delete;
  ~PassedSockets();

  // Returns the socket that listens on this address; -1: none does.
  [[nodiscard]] int find(const core::Address& address);
  // Throws std::runtime_error if find() has not returned one of the sockets yet.
  void check_all_found() const;

 private:
  struct Socket {
    int descriptor;
    std::string address;
    bool is_found = false;
  };
  std::vector<Socket> sockets_;
};

// Claims an address to listen on ("127.0.0.1:8080", "*:8080", "unix:/run/a.sock"), as core::claim() does, and returns
// it with its actual port, or with its passed socket. The error names the process that has the address.
[[nodiscard]] std::expected<net::Listening, std::string> claim(const std::string& text, PassedSockets& passed);

}  // namespace sluice::runtime
