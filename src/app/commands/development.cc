#include "app/commands/development.h"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "app/config/listen.h"
#include "core/address.h"

namespace sluice::app {
namespace {

constexpr auto interval = std::chrono::milliseconds(200);

}  // namespace

std::vector<config::Diagnostic> development_faults(const Options& options) {
  std::vector<config::Diagnostic> faults;
  for (const auto& [text, position] : options.server.listen) {
    const Listen listen = Listen::parse(text);
    const auto address = core::Address::parse(listen.address);
    const bool is_local = address && (address->family() == AF_UNIX || address->is_loopback());
    if (is_local && !listen.secure(options.server.tls.has_value())) continue;
    faults.push_back({position, fmt::format("with --dev, answers show the database's messages, so the server may only "
                                            "listen on the loopback and without TLS; \"{}\" is not so",
                                            text)});
  }
  return faults;
}

DevelopmentWatch::DevelopmentWatch(const config::Source& source) {
  for (const std::string& name : source.files().names) {
    folders_.insert(std::filesystem::absolute(name).parent_path().string());
  }
  seen_ = look();
  sigset_t all;  // signals are for the main thread
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

DevelopmentWatch::Times DevelopmentWatch::look() const {
  Times times;
  std::error_code error;
  for (const std::string& folder : folders_) {
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() != ".toml") continue;
      const auto time = at->last_write_time(error);
      if (!error) times[at->path().string()] = time;
    }
  }
  return times;
}

void DevelopmentWatch::run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  while (!woken.wait_for(lock, stop, interval, [] { return false; }) && !stop.stop_requested()) {
    Times now = look();
    if (now == seen_) continue;
    for (const auto& [file, time] : now) {
      const auto before = seen_.find(file);
      if (before != seen_.end() && before->second == time) continue;
      std::fprintf(stderr, "%s has changed\n", std::filesystem::path(file).filename().c_str());
    }
    seen_ = std::move(now);
    ::kill(::getpid(), SIGHUP);
  }
}

}  // namespace sluice::app
