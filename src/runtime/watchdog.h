#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/contains.h"
#include "core/core.h"
#include "core/sleep.h"
#include "runtime/manager.h"

namespace sluice::runtime {

// Tells the service manager that the process is alive, as long as the loop of every core turns. In a round, each core
// reports once; the last one to report sends the ping, and the next round begins. So no ping is sent while a core
// hangs.
class Watchdog {
 public:
  // `patience`: the time after which the manager ends a silent process; 0: there is no watchdog.
  Watchdog(Notifier& notifier, Duration patience, unsigned cores)
      : notifier_(notifier), every_(patience / 2), cores_(cores, State::awaited) {}
  Watchdog(const Watchdog&) = delete;

  // Reports for the core until its tasks are cancelled. Called on the core.
  void watch(core::Core& core) {
    if (every_ != Duration::zero()) core.tasks().spawn(report_for(core));
  }

 private:
  enum class State : std::uint8_t { awaited, reported, left };
  struct Leaves {
    ~Leaves() { watchdog.set(core, State::left); }
    Watchdog& watchdog;
    const unsigned core;
  };

  core::Task<void> report_for(core::Core& core) {
    const Leaves leaves{*this, core.index()};
    for (;;) {
      set(core.index(), State::reported);
      co_await core::Sleep(core.reactor(), core.reactor().now() + every_);
    }
  }
  void set(unsigned core, State state) {
    const std::lock_guard lock(mutex_);
    cores_[core] = state;
    if (contains(cores_, State::awaited)) return;
    notifier_.alive();
    std::ranges::replace(cores_, State::reported, State::awaited);
  }

  Notifier& notifier_;
  const Duration every_;
  std::mutex mutex_;
  std::vector<State> cores_;
};

}  // namespace sluice::runtime
