#include "app/suite/server.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/commands/exit_code.h"
#include "app/prepare/prepare.h"
#include "app/serve.h"
#include "app/suite/client.h"

namespace sluice::app::suite {
namespace {

constexpr Duration look_every = 2ms;

std::string how_it_ended(int status) {
  return WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                             : fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace

Server::~Server() {
  if (child_ < 0 || ended()) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::expected<void, Server::Failure> Server::start(config::Config config, Instant deadline, Signals& signals) {
  const auto address = core::Address::from_path(folder_ + "/server.sock");
  if (!address) return std::unexpected(Failure{folder_ + ": the path is too long for a socket in it", exit_failure});
  address_ = *address;
  log_path_ = folder_ + "/server.log";
  ServerOptions& server = config.options.server;
  server.listen = {Located<std::string>(address_.text())};
  server.tls.reset();
  server.http1 = true;
  server.cores = 1;
  server.access_log.value = "off";
  server.error_log.value = "stderr";
  config.options.admin.listen.value.clear();

  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child_ == 0) run(config, signals, parent);
  for (;;) {
    if (ended()) {
      const int code = WIFEXITED(status_) && WEXITSTATUS(status_) != 0 ? WEXITSTATUS(status_) : int{exit_failure};
      std::string said = log();
      if (said.empty()) said = how_it_ended(status_);
      return std::unexpected(Failure{std::move(said), code});
    }
    if (can_connect(address_)) {
      serving_ = true;
      return {};
    }
    if (signals.interrupted()) return std::unexpected(Failure{"interrupted by a signal", exit_failure});
    if (now() >= deadline) return std::unexpected(Failure{"the server is not ready in time\n" + log(), exit_failure});
    std::this_thread::sleep_for(look_every);
  }
}

// Runs in the child, which has a copy of the parent's memory but uses only the configuration.
void Server::run(const config::Config& config, const Signals& signals, pid_t parent) const {
  int code = exit_failure;
  try {
    ::setpgid(0, 0);  // Ctrl-C at the terminal signals only the parent
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(exit_failure);
    const int log = ::open(log_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (log < 0 || ::dup2(log, STDOUT_FILENO) < 0 || ::dup2(log, STDERR_FILENO) < 0) std::_Exit(exit_failure);
    ::close(log);
    signals.restore();
    const auto plan = prepare(config, false);
    if (!plan) {
      std::fputs(plan.error().text.c_str(), stderr);
      code = plan.error().exit_code;
    } else {
      std::fflush(stdout);
      code = serve(config.source, *plan);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice: %s\n", error.what());
  }
  std::exit(code);
}

bool Server::ended() {
  if (child_ < 0) return true;
  const pid_t reaped = ::waitpid(child_, &status_, WNOHANG);
  if (reaped != child_) return false;
  child_ = -1;
  return true;
}

std::expected<void, Server::Failure> Server::stop(Instant deadline) {
  if (!serving_) return {};
  if (!ended()) {
    ::kill(child_, SIGTERM);
    while (!ended()) {
      if (now() >= deadline) {
        ::kill(child_, SIGKILL);
        while (::waitpid(child_, &status_, 0) < 0 && errno == EINTR) {
        }
        child_ = -1;
        return std::unexpected(Failure{"the server does not stop\n" + log(), exit_failure});
      }
      std::this_thread::sleep_for(look_every);
    }
  }
  if (WIFEXITED(status_) && WEXITSTATUS(status_) == 0) return {};
  return std::unexpected(Failure{how_it_ended(status_) + "\n" + log(), exit_failure});
}

std::string Server::death() { return serving_ && ended() ? how_it_ended(status_) : ""; }

std::string Server::log(std::size_t from) const {
  std::ifstream file(log_path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from));
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : std::string();
}

std::size_t Server::log_size() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(log_path_, error);
  return error ? 0 : static_cast<std::size_t>(size);
}

}  // namespace sluice::app::suite
