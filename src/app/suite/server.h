#pragma once

#include <cstddef>
#include <expected>
#include <string>

#include <sys/types.h>

#include "app/config/load.h"
#include "app/suite/signals.h"
#include "base/time.h"
#include "core/address.h"

namespace sluice::app::suite {

// Serves the configuration in a child process, as `sluice serve` does, on a unix socket of its own. The child dies with
// this process, even if this process is killed.
class Server {
 public:
  struct Failure {
    std::string text;   // the child's output
    int exit_code = 0;  // the exit code for the program
  };

  // `folder`: for its socket and its log; only this user may have access.
  explicit Server(std::string folder) : folder_(std::move(folder)) {}
  Server(const Server&) = delete;
  ~Server();  // kills the child

  // Forks, so this process must have one thread. `config` has its databases set. Its addresses, TLS, admin listener,
  // access log and number of cores are replaced. Returns when the child accepts connections.
  [[nodiscard]] std::expected<void, Failure> start(config::Config config, Instant deadline, Signals& signals);
  // Sends SIGTERM. An error: the child did not drain and exit with 0 before the deadline, and was killed.
  [[nodiscard]] std::expected<void, Failure> stop(Instant deadline);

  // How the child ended without stop(), such as "signal 11"; empty if it runs.
  [[nodiscard]] std::string death();

  [[nodiscard]] const core::Address& address() const { return address_; }
  // The child's log after the first `from` bytes, and the size of the log.
  [[nodiscard]] std::string log(std::size_t from = 0) const;
  [[nodiscard]] std::size_t log_size() const;

 private:
  [[noreturn]] void run(const config::Config& config, const Signals& signals, pid_t parent) const;
  [[nodiscard]] bool ended();  // reaps the child

  std::string folder_;
  core::Address address_;
  std::string log_path_;
  pid_t child_ = -1;
  int status_ = 0;  // as waitpid() returns it
  bool serving_ = false;
};

}  // namespace sluice::app::suite
