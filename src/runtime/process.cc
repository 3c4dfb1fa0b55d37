#include "runtime/process.h"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <deque>
#include <exception>
#include <thread>

#include <fmt/format.h>
#include <pthread.h>

#include "core/descriptor_limit.h"
#include "core/usable_cores.h"
#include "runtime/life.h"
#include "runtime/watchdog.h"

namespace sluice::runtime {
namespace {

constexpr timespec tend_every{.tv_sec = 5, .tv_nsec = 0};

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

class BlockedSignals {
 public:
  BlockedSignals() { pthread_sigmask(SIG_BLOCK, &all, &before_); }
  BlockedSignals(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  const sigset_t ends = set_of({SIGTERM, SIGINT});
  const sigset_t all = set_of({SIGTERM, SIGINT, SIGHUP, SIGUSR1});

 private:
  sigset_t before_{};
};

void raise_descriptor_limit(std::uint64_t wanted) {
  const std::uint64_t allowed = core::raise_descriptor_limit();
  if (allowed >= wanted) return;
  log_error(fmt::format("the system allows {} open files; [server] connections, on every core, may need {}", allowed,
                        wanted));
}

// Without memory there is no line.
void log_the_end(const siginfo_t& end, const Process::EndOptions& options) noexcept {
  const auto seconds = [](Duration time) { return std::chrono::duration_cast<std::chrono::seconds>(time).count(); };
  try {
    const char* const name = end.si_signo == SIGINT ? "SIGINT" : "SIGTERM";
    std::string text = fmt::format("stops: {} from process {}; ", name, end.si_pid);
    if (options.delay != Duration::zero())
      text += fmt::format("it still accepts requests for {} s; then ", seconds(options.delay));
    log_error(text + fmt::format("requests that run have {} s to end", seconds(options.grace)));
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace

// Handles the second SIGTERM or SIGINT. Its thread is created at start, because a thread may not be available at
// shutdown.
class Process::ForcedEnd {
 public:
  ForcedEnd(const sigset_t& signals, SocketFiles& files)
      : thread_([this, &signals, &files] {
          state_.wait(Stage::idle);
          if (state_ == Stage::over) return;
          int signal = 0;
          sigwait(&signals, &signal);
          if (state_ == Stage::over) return;
          files.end();
          std::signal(signal, SIG_DFL);
          pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
          std::raise(signal);
        }) {}
  ForcedEnd(const ForcedEnd&) = delete;
  ~ForcedEnd() {
    set(Stage::over);
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  // After the first signal: from now on this thread takes the signals.
  void arm() noexcept { set(Stage::armed); }

 private:
  enum class Stage : std::uint8_t { idle, armed, over };
  void set(Stage to) noexcept {
    state_ = to;
    state_.notify_one();
  }

  std::atomic<Stage> state_{Stage::idle};
  std::thread thread_;
};

struct Process::State {
  // Makes a core end. Allocated at start, because there may be no memory at shutdown.
  struct EndLetter : core::Letter {
    EndLetter() : Letter([](core::Letter& letter) noexcept { static_cast<EndLetter&>(letter).life->end(); }) {}
    Life* life = nullptr;
  };

  State(const ProcessOptions& options, unsigned core_count)
      : passed(options.manager.sockets),
        notifier(options.manager.notify_socket),
        watchdog(notifier, options.manager.watchdog, core_count),
        cores({.count = core_count, .back_end = options.back_end}),
        per_core(cores.size()),
        letters(cores.size()),
        forced(signals.ends, files),
        threads(options.threads_per_core * cores.size(), options.queued_per_core * cores.size()) {
    end.cores_left = cores.size();
    raise_descriptor_limit(options.connections_per_core * cores.size());
  }

  BlockedSignals signals;  // first: the threads inherit it
  Logs logs;
  SocketFiles files;
  TroubleLog trouble{"clients", "are accepted again", "attempts failed"};
  PassedSockets passed;
  Notifier notifier;
  Watchdog watchdog;
  core::Cores cores;
  std::vector<PerCore*> per_core;
  std::deque<EndLetter> letters;
  End end;
  ForcedEnd forced;
  core::BlockingPool threads;  // ends before the cores, whose mailboxes it posts to
};

Process::Process(const ProcessOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  state_ = std::make_unique<State>(options, options.cores != 0 ? options.cores : core::usable_cores());
}
Process::~Process() = default;

core::Cores& Process::cores() { return state_->cores; }
core::BlockingPool& Process::threads() { return state_->threads; }
Logs& Process::logs() { return state_->logs; }
SocketFiles& Process::files() { return state_->files; }
PassedSockets& Process::passed() { return state_->passed; }
Notifier& Process::notifier() { return state_->notifier; }
Descriptors Process::descriptors() { return {.most = core::descriptors_for_clients(), .trouble = &state_->trouble}; }
std::span<PerCore* const> Process::per_core() const { return state_->per_core; }

void Process::start(const std::function<void(core::Core&, const Run&)>& body) {
  state_->cores.start([this, body](core::Core& core) {
    body(core, [&](PerCore& user) {
      Life life(core, user, state_->end);
      state_->per_core[core.index()] = &user;
      state_->letters[core.index()].life = &life;
      state_->watchdog.watch(core);
      core.run();
    });
  });
}

siginfo_t Process::wait(const std::function<void(bool told)>& tend) {
  for (;;) {
    siginfo_t told_by{};
    const int signal = sigtimedwait(&state_->signals.all, &told_by, &tend_every);
    if (signal == SIGTERM || signal == SIGINT) return told_by;
    if (signal < 0 && errno != EAGAIN) continue;
    // No exception may pass this point, because the cores run.
    try {
      if (signal == SIGUSR1) state_->logs.reopen();
      tend(signal == SIGHUP);
    } catch (const std::exception& error) {
      log_error(error.what());
    }
  }
}

void Process::end(const siginfo_t& told_by, const EndOptions& options) noexcept {
  state_->notifier.stopping();
  log_the_end(told_by, options);
  state_->end.delay = options.delay;
  state_->end.grace = options.grace;
  for (unsigned i = 0; i < state_->cores.size(); ++i) {
    if (!state_->cores.core(i).mailbox().post(state_->letters[i]))
      --state_->end.cores_left;  // that core has already ended
  }
  state_->forced.arm();
  state_->cores.join();
}

}  // namespace sluice::runtime
