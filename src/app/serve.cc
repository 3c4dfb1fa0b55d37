#include "app/serve.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
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
#include "core/blocking_pool.h"
#include "core/core.h"
#include "files/blob_folder.h"
#include "net/resolver.h"

namespace sluice::app {
namespace {

// Tells a core to drain.
struct DrainLetter : core::Letter {
  DrainLetter(Worker& worker, Duration grace, std::atomic<unsigned>& cores_left)
      : Letter([](core::Letter& letter) noexcept {
          auto& self = static_cast<DrainLetter&>(letter);
          self.worker.drain(self.grace, self.cores_left);
        }),
        worker(worker),
        grace(grace),
        cores_left(cores_left) {}
  Worker& worker;
  Duration grace;
  std::atomic<unsigned>& cores_left;
};

// The second SIGTERM or SIGINT: ends the program at once, as it would without us, but leaves no socket files behind.
// The signals are blocked on all threads.
class ForcedEnd {
 public:
  ForcedEnd(const sigset_t& signals, SocketFiles& files)
      : thread_([this, signals, &files] {
          int signal = 0;
          sigwait(&signals, &signal);
          if (over_) return;
          files.end();
          std::signal(signal, SIG_DFL);
          pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
          std::raise(signal);
        }) {}
  ForcedEnd(const ForcedEnd&) = delete;
  ~ForcedEnd() {
    over_ = true;
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// Every connection is a descriptor: as many as the system lets us have.
// `wanted`: how many the configuration asks for; 0: it does not say.
void raise_descriptor_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= wanted) return;
  log_error(fmt::format("the system allows {} open files; [server] connections, on every core, may need {}",
                        limit.rlim_max, wanted));
}

// Beyond these no connection is accepted: databases, files, logs and the admin listener need some too.
int descriptors_for_clients() {
  constexpr rlim_t reserve = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT_MAX) return INT_MAX;
  return static_cast<int>(limit.rlim_cur - std::min(reserve, limit.rlim_cur / 4));
}

std::string url_of(const core::Address& address, bool secure = false) {
  if (address.family() == AF_UNIX) return address.text();
  // Every address is none that a browser can open.
  const bool is_wildcard = address.ip() == "0.0.0.0" || address.ip() == "::";
  return (secure ? "https://" : "http://") +
         (is_wildcard ? "localhost:" + std::to_string(address.port()) : address.text());
}

void print_banner(const Plan& plan, unsigned cores, const std::vector<http::Listening>& addresses,
                  const std::optional<core::Address>& admin) {
  const auto count = [](std::size_t number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  const Options& options = plan.options;
  // Nothing but lines of JSON on standard output, where the access log goes there.
  std::FILE* const out = options.server.access_log == AccessLogTarget::standard_output ? stderr : stdout;
  const std::size_t folders = options.files.size();
  fmt::print(out, "sluice {}: {}, {} of files, {}{}\n", SLUICE_VERSION, count(options.endpoints.size(), "endpoint"),
             count(folders, "folder"),
             (options.websockets.empty() ? "" : count(options.websockets.size(), "websocket") + ", ") +
                 (options.routes.empty() ? "" : count(options.routes.size(), "route") + ", "),
             count(cores, "core"));
  for (const http::Listening& one : addresses) fmt::print(out, "  serving  {}/\n", url_of(one.address, one.secure));
  if (admin) fmt::print(out, "  admin    {}/metrics /livez /readyz\n", url_of(*admin));
  fmt::print(out, "  io       {}\n", name_of(plan.io.back_end));
  std::fflush(out);
}

// Until SIGTERM or SIGINT. On SIGHUP the files of certificates and keys, and the configuration, are read again; files
// of certificates and keys also when they have changed.
void wait_for_the_end(const sigset_t& signals, Reloader& reloader) {
  constexpr timespec look_every{
      .tv_sec = std::chrono::duration_cast<std::chrono::seconds>(Certificates::look_every).count(), .tv_nsec = 0};
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &look_every);
    if (signal == SIGTERM || signal == SIGINT) return;
    if (signal < 0 && errno != EAGAIN) continue;
    const bool told = signal == SIGHUP;
    reloader.tend(told);
    if (told) reloader.start();
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
  pthread_sigmask(SIG_BLOCK, &with_hangup, nullptr);  // all threads inherit it: only sigwait() and the like take them

  Listeners listeners(*plan);
  const ListenerSet first = listeners.served();
  std::optional<core::Address> admin_address;
  if (!plan->options.admin.listen.value.empty()) {
    admin_address = listeners.claim_also(plan->options.admin.listen.value);
  }

  // What cannot be opened is said here, and not by a core; what was cut off the last time goes.
  for (const auto& store : plan->options.stores) {
    files::BlobFolder::open(store.value.path.value)->remove_leftovers();
  }

  core::Cores cores({.count = options.cores, .back_end = plan->io.back_end});
  raise_descriptor_limit(
      options.connections.position.line != 0 ? std::uint64_t{options.connections.value} * cores.size() : 0);
  std::vector<Worker*> workers(cores.size());
  Reloader reloader(file, plan, workers, cores, listeners);
  core::BlockingPool threads(2 * cores.size(), 1024 * cores.size());
  TroubleLog descriptor_trouble("clients", "are accepted again", "attempts failed");
  const Descriptors descriptors{.most = descriptors_for_clients(), .trouble = &descriptor_trouble};
  cores.start([&](core::Core& core) {
    Worker worker(core, plan, threads, descriptors);
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
  for (const auto& resident : plan->residents) {
    resident->first = {};  // the cores have it
    resident->mark = {};
  }
  print_banner(*plan, cores.size(), first.addresses, admin_address);

  wait_for_the_end(with_hangup, reloader);
  reloader.end();
  const Duration grace = reloader.served()->options.server.grace;
  std::atomic<unsigned> cores_left = cores.size();
  std::vector<std::unique_ptr<DrainLetter>> letters;
  for (unsigned i = 0; i < cores.size(); ++i) {
    letters.push_back(std::make_unique<DrainLetter>(*workers[i], grace, cores_left));
    if (!cores.core(i).mailbox().post(*letters.back())) --cores_left;  // that core has ended already
  }
  {
    const ForcedEnd forced(signals, listeners.files());
    cores.join();
  }
  if (reloader.is_running()) {  // it asks a database, which nobody waits for
    listeners.files().end();
    std::fflush(nullptr);
    std::_Exit(exit_ok);
  }
  return exit_ok;
}

}  // namespace sluice::app
