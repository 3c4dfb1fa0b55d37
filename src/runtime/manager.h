#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/time.h"

namespace sluice::runtime {

// The variables of the environment by which a service manager, such as systemd, speaks to a process that it starts.
struct ManagerEnvironment {
  std::string notify_socket;  // the socket for messages about the state; empty: the manager wants none
  Duration watchdog{};        // the manager ends a process that has been silent for this long; 0: it does not
  int sockets = 0;            // how many listening sockets it has passed

  // Reads the variables and removes them, so that child processes do not get them. Ignores variables for another
  // process. Throws std::runtime_error if one is wrong. No other thread may use the environment meanwhile.
  static ManagerEnvironment take();
};

// Tells the service manager the state of the process: one datagram for each change (sd_notify(3)). Thread-safe. Does
// nothing if no manager wants messages.
class Notifier {
 public:
  // `address`: a path, or the name of an abstract socket after "@". Throws std::runtime_error if it is neither.
  explicit Notifier(std::string_view address);
  Notifier(const Notifier&) = delete;
  ~Notifier();

  // The process serves, or serves again after a reload. `status` is one line for people.
  void ready(std::string_view status) noexcept;
  void reloading() noexcept;
  // The process begins to end. After this, only alive() sends anything.
  void stopping() noexcept;
  // For the watchdog. Never blocks.
  void alive() noexcept;

 private:
  void tell(std::string_view state, std::string_view status) noexcept;

  int socket_ = -1;
  sockaddr_un manager_{};
  socklen_t manager_size_ = 0;
  std::mutex mutex_;
  bool is_stopping_ = false;
};

}  // namespace sluice::runtime
