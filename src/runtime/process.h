#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/logs.h"
#include "base/time.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "core/reactor.h"
#include "runtime/descriptors.h"
#include "runtime/manager.h"
#include "runtime/per_core.h"
#include "runtime/sockets.h"

namespace sluice::runtime {

struct ProcessOptions {
  unsigned cores = 0;  // 0: as many as the process may use
  core::BackEnd back_end = core::BackEnd::epoll;
  unsigned threads_per_core = 1;  // of the blocking pool
  std::size_t queued_per_core = 1024;
  std::uint64_t connections_per_core = 0;  // logs if the system allows fewer open files; 0: does not ask
  ManagerEnvironment manager = {};
};

// A process that serves: its cores, blocking threads, logs, signals, sockets' files and service manager, and the order
// in which they end.
//
//   Process process(options);
//   process.start([&](core::Core& core, const Process::Run& run) {
//     Worker worker(core, ...);
//     run(worker);  // returns when the core ends
//   });
//   process.notifier().ready("serving");
//   const siginfo_t end = process.wait(tend);
//   process.end(end, {.grace = grace});
class Process {
 public:
  using Run = std::function<void(PerCore&)>;

  // Ignores SIGPIPE. SIGTERM, SIGINT, SIGHUP and SIGUSR1 are blocked on the calling thread and on all threads that it
  // starts from now on, until the destructor.
  explicit Process(const ProcessOptions& options);
  Process(const Process&) = delete;
  ~Process();

  [[nodiscard]] core::Cores& cores();
  [[nodiscard]] core::BlockingPool& threads();
  [[nodiscard]] Logs& logs();
  [[nodiscard]] SocketFiles& files();
  [[nodiscard]] PassedSockets& passed();
  [[nodiscard]] Notifier& notifier();
  [[nodiscard]] Descriptors descriptors();
  // By core; entries are null until all cores run.
  [[nodiscard]] std::span<PerCore* const> per_core() const;

  // Calls `body` on every core, which sets up its PerCore and passes it to `run`. Returns when all cores run. Throws
  // what a body has thrown.
  void start(const std::function<void(core::Core&, const Run&)>& body);
  // Waits for SIGTERM or SIGINT, which it returns. Calls `tend(true)` on SIGHUP and `tend(false)` every 5 s; its
  // exceptions are logged. SIGUSR1 opens the files of the logs again.
  [[nodiscard]] siginfo_t wait(const std::function<void(bool told)>& tend);
  struct EndOptions {
    Duration delay{};  // during this time the cores serve as before, but are not ready
    Duration grace{};  // for the requests that run then
  };
  // Tells the service manager, has every core end, and waits for that. A second signal ends the program at once, like
  // the default action, but removes the socket files. Needs no memory and does not throw.
  void end(const siginfo_t& told_by, const EndOptions& options) noexcept;

 private:
  struct State;
  class ForcedEnd;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::runtime
