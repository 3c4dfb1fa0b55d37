#pragma once

#include <atomic>

#include "base/time.h"
#include "core/alarm.h"
#include "core/core.h"
#include "core/sleep.h"
#include "runtime/per_core.h"

namespace sluice::runtime {

// The end of the process, which all cores share.
struct End {
  std::atomic<Duration> delay{};  // before the drain; this and `grace` are set before the end begins
  std::atomic<Duration> grace{};
  std::atomic<unsigned> cores_left{};  // that have not ended
};

// Takes one core through the stages of its end (see PerCore), then stops it.
class Life {
 public:
  Life(core::Core& core, PerCore& user, End& end) : core_(core), user_(user), end_(end), told_(core.reactor()) {
    core.tasks().spawn(end_when_told());  // needs no memory later
  }
  Life(const Life&) = delete;
  // Begins the end. Called on the core.
  void end() noexcept { told_.ring(); }

 private:
  static constexpr Duration look_every = 5ms;

  core::Task<void> end_when_told() {
    core::Reactor& reactor = core_.reactor();
    (void)co_await told_.wait(never);
    user_.stage_ = PerCore::Stage::leaving;
    if (const Duration delay = end_.delay; delay != Duration::zero()) {
      co_await core::Sleep(reactor, reactor.now() + delay);
    }
    const Duration grace = end_.grace;
    const Instant by = reactor.now() + grace;
    user_.stage_ = PerCore::Stage::draining;
    user_.drain(grace);
    if (user_.on_drain_) user_.on_drain_();
    while (!user_.drained() && reactor.now() < by) co_await core::Sleep(reactor, reactor.now() + look_every);
    co_await user_.finish(by);
    --end_.cores_left;
    // The admin listener belongs to the first core, so this core continues until all others have ended.
    while (core_.index() == 0 && end_.cores_left != 0 && reactor.now() < by) {
      co_await core::Sleep(reactor, reactor.now() + look_every);
    }
    core_.stop();
  }

  core::Core& core_;
  PerCore& user_;
  End& end_;
  core::Alarm told_;
};

}  // namespace sluice::runtime
