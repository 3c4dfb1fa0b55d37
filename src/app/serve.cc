#include "app/serve.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "app/admin.h"
#include "app/certificates.h"
#include "app/changes.h"
#include "app/cli.h"
#include "app/listeners.h"
#include "app/reloader.h"
#include "app/residents.h"
#include "app/worker.h"
#include "base/log.h"
#include "base/log_writer.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "core/descriptor_limit.h"
#include "files/blob_folder.h"
#include "net/resolver.h"

namespace sluice::app {
namespace {

// Makes a core drain. One per core is created at start, because there may be no memory at shutdown.
struct DrainLetter : core::Letter {
  explicit DrainLetter(std::atomic<unsigned>& cores_left)
      : Letter([](core::Letter& letter) noexcept {
          auto& self = static_cast<DrainLetter&>(letter);
          self.worker->drain(self.grace, self.cores_left);
        }),
        cores_left(cores_left) {}
  Worker* worker = nullptr;
  Duration grace{};
  std::atomic<unsigned>& cores_left;
};

// Handles the second SIGTERM or SIGINT: ends the program at once, like the default action, but removes the socket
// files. The signals are blocked on all threads. Its thread is created at start, because a thread may not be available
// at shutdown.
class ForcedEnd {
 public:
  ForcedEnd(const sigset_t& signals, SocketFiles& files)
      : thread_([this, &signals, &files] {
          state_.wait(State::idle);
          if (state_ == State::over) return;
          int signal = 0;
          sigwait(&signals, &signal);
          if (state_ == State::over) return;
          files.end();
          std::signal(signal, SIG_DFL);
          pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
          std::raise(signal);
        }) {}
  ForcedEnd(const ForcedEnd&) = delete;
  ~ForcedEnd() {
    set_state(State::over);
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  // After the first signal: from now on this thread takes the signals.
  void arm() noexcept { set_state(State::armed); }

 private:
  enum class State : std::uint8_t { idle, armed, over };
  void set_state(State to) noexcept {
    state_ = to;
    state_.notify_one();
  }

  std::atomic<State> state_{State::idle};
  std::thread thread_;
};

// Logs if the system allows fewer open files than `wanted`, the number that the configuration may need.
void raise_descriptor_limit(std::uint64_t wanted) {
  const std::uint64_t allowed = core::raise_descriptor_limit();
  if (allowed >= wanted) return;
  log_error(fmt::format("the system allows {} open files; [server] connections, on every core, may need {}", allowed,
                        wanted));
}

std::string url_of(const core::Address& address, bool secure = false) {
  if (address.family() == AF_UNIX) return address.text();
  // A browser cannot open a wildcard address.
  const bool is_wildcard = address.ip() == "0.0.0.0" || address.ip() == "::";
  return (secure ? "https://" : "http://") +
         (is_wildcard ? "localhost:" + std::to_string(address.port()) : address.text());
}

void print_banner(const Plan& plan, unsigned cores, const std::vector<net::Listening>& addresses,
                  const std::optional<core::Address>& admin, Logs& logs) {
  const auto count = [](std::size_t number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  const Options& options = plan.options;
  // If the access log is on standard output, only its lines may be written there.
  LogWriter& out = options.server.access_log == AccessLogTarget::standard_output ? logs.errors() : logs.output();
  const std::size_t folders = options.files.size();
  std::string text =
      fmt::format("sluice {}: {}, {} of files, {}{}\n", SLUICE_VERSION, count(options.endpoints.size(), "endpoint"),
                  count(folders, "folder"),
                  (options.websockets.empty() ? "" : count(options.websockets.size(), "websocket") + ", ") +
                      (options.routes.empty() ? "" : count(options.routes.size(), "route") + ", "),
                  count(cores, "core"));
  for (const net::Listening& one : addresses) text += fmt::format("  serving  {}/\n", url_of(one.address, one.secure));
  if (admin) text += fmt::format("  admin    {}/metrics /livez /readyz /upstreams\n", url_of(*admin));
  text += fmt::format("  io       {}\n", name_of(plan.io.back_end));
  out.write(text);
}

// Waits for SIGTERM or SIGINT, which it returns. On SIGHUP, certificates, keys and the configuration are read again.
// Certificates and keys are also read again when their files have changed.
siginfo_t wait_for_the_end(const sigset_t& signals, Reloader& reloader) {
  constexpr timespec look_every{
      .tv_sec = std::chrono::duration_cast<std::chrono::seconds>(Certificates::look_every).count(), .tv_nsec = 0};
  for (;;) {
    siginfo_t told_by{};
    const int signal = sigtimedwait(&signals, &told_by, &look_every);
    if (signal == SIGTERM || signal == SIGINT) return told_by;
    if (signal < 0 && errno != EAGAIN) continue;
    const bool told = signal == SIGHUP;
    // No exception may pass this point, because the cores run.
    try {
      reloader.tend(told);
      if (told) reloader.start();
    } catch (const std::exception& error) {
      log_error(error.what());
    }
  }
}

// Without memory there is no line.
void log_the_end(const siginfo_t& end, Duration grace) noexcept {
  try {
    const char* const name = end.si_signo == SIGINT ? "SIGINT" : "SIGTERM";
    log_error(fmt::format("stops: {} from process {}; requests that run have {} s to end", name, end.si_pid,
                          std::chrono::duration_cast<std::chrono::seconds>(grace).count()));
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace

int serve(const std::string& file, const std::shared_ptr<const Plan>& plan) {
  if (const auto loaded = load_residents(file, *plan, nullptr, true); !loaded) {
    std::fputs(loaded.error().text.c_str(), stderr);
    return loaded.error().exit_code;
  }
  const ServerOptions& options = plan->options.server;
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigset_t with_hangup = signals;
  sigaddset(&with_hangup, SIGHUP);
  // All threads inherit the mask, so that only sigwait() and similar calls take the signals.
  pthread_sigmask(SIG_BLOCK, &with_hangup, nullptr);
  std::fflush(nullptr);
  Logs logs;

  Listeners listeners(*plan);
  const ListenerSet first = listeners.served();
  std::optional<core::Address> admin_address;
  if (!plan->options.admin.listen.value.empty()) {
    admin_address = listeners.claim_also(plan->options.admin.listen.value);
  }

  // Reports here, and not on a core, if a folder cannot be opened. Also removes incomplete files of an earlier run.
  for (const auto& store : plan->options.stores) {
    files::BlobFolder::open(store.value.path.value)->remove_leftovers();
  }

  core::Cores cores({.count = options.cores, .back_end = plan->io.back_end});
  raise_descriptor_limit(
      options.connections.position.line != 0 ? std::uint64_t{options.connections.value} * cores.size() : 0);
  std::vector<Worker*> workers(cores.size());
  std::atomic<unsigned> cores_left = cores.size();
  std::deque<DrainLetter> letters;
  for (unsigned i = 0; i < cores.size(); ++i) letters.emplace_back(cores_left);
  ForcedEnd forced(signals, listeners.files());
  Reloader reloader(file, plan, workers, cores, listeners);
  core::BlockingPool threads(2 * cores.size(), 1024 * cores.size());
  TroubleLog descriptor_trouble("clients", "are accepted again", "attempts failed");
  const Descriptors descriptors{.most = core::descriptors_for_clients(), .trouble = &descriptor_trouble};
  cores.start([&](core::Core& core) {
    Worker worker(core, plan, threads, logs, descriptors);
    workers[core.index()] = &worker;
    worker.bind(first.addresses);
    worker.listen(first);
    Changes changes(core, workers);
    Residents residents(core, workers, threads);
    std::optional<Admin> admin;
    if (core.index() == 0) {
      changes.join(*plan);
      core.tasks().spawn(changes.settle());
      residents.follow(*plan);
      reloader.set_keepers(changes, residents);
      if (admin_address) {
        admin.emplace(core, plan->io, workers, &reloader, &changes, &residents);
        admin->listen(*admin_address);
      }
    }
    core.run();
  });
  for (const auto& resident : plan->all<Plan::Resident>()) {
    resident->first = {};  // the cores have them
    resident->mark = {};
  }
  print_banner(*plan, cores.size(), first.addresses, admin_address, logs);

  const siginfo_t end = wait_for_the_end(with_hangup, reloader);
  // The cores run: from here on nothing allocates memory or throws.
  reloader.end();
  const Duration grace = reloader.served()->options.server.grace;
  log_the_end(end, grace);
  for (unsigned i = 0; i < cores.size(); ++i) {
    letters[i].worker = workers[i];
    letters[i].grace = grace;
    if (!cores.core(i).mailbox().post(letters[i])) --cores_left;  // that core has already ended
  }
  forced.arm();
  cores.join();
  if (reloader.is_running()) {  // it waits for a database; do not wait for it
    listeners.files().end();
    logs.finish();
    std::_Exit(exit_ok);
  }
  return exit_ok;
}

}  // namespace sluice::app
