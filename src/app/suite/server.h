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

// The configuration's server as a child process: what `sluice serve` does, on a unix socket of its own. It dies with
// this process, however that ends.
class Server {
 public:
  struct Failure {
    std::string text;   // what it said
    int exit_code = 0;  // as of the program's
  };

  // `folder`: for its socket and its log; nobody else may enter it.
  explicit Server(std::string folder) : folder_(std::move(folder)) {}
  Server(const Server&) = delete;
  ~Server();  // kills it

  // Forks: this process has one thread. `config` has its databases; its addresses, TLS, admin listener, access log and
  // number of cores are replaced. Returns when it accepts connections.
  [[nodiscard]] std::expected<void, Failure> start(config::Config config, Instant deadline, Signals& signals);
  // SIGTERM. An error: it did not drain and exit with 0 before the deadline, and has been killed.
  [[nodiscard]] std::expected<void, Failure> stop(Instant deadline);

  // How it has ended by itself, such as "signal 11"; empty: it runs.
  [[nodiscard]] std::string death();

  [[nodiscard]] const core::Address& address() const { return address_; }
  // What it has written to its log behind the first `from` bytes; and how many there are.
  [[nodiscard]] std::string log(std::size_t from = 0) const;
  [[nodiscard]] std::size_t log_size() const;

 private:
  [[noreturn]] void run(const config::Config& config, const Signals& signals, pid_t parent) const;
  [[nodiscard]] bool ended();  // reaps it

  std::string folder_;
  core::Address address_;
  std::string log_path_;
  pid_t child_ = -1;
  int status_ = 0;  // as waitpid() gives it
  bool serving_ = false;
};

}  // namespace sluice::app::suite
