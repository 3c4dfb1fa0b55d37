#pragma once

#include <coroutine>
#include <utility>

#include "base/assert.h"
#include "core/reactor.h"

namespace sluice::core {

// Wakes one coroutine at an instant, or earlier when ring() is called. A ring without a waiter is remembered, once.
//
//   const bool rung = co_await alarm.wait(until);
class Alarm : Timer, TurnHook {
 public:
  explicit Alarm(Reactor& reactor) : Timer(&Alarm::expired), TurnHook(&Alarm::turned), reactor_(reactor) {}

  class [[nodiscard]] Wait {
   public:
    Wait(Alarm& alarm, Instant until) : alarm_(alarm), until_(until) {}
    Wait(const Wait&) = delete;
    ~Wait() { alarm_.forget(); }

    bool await_ready() const noexcept { return alarm_.rung_; }
    void await_suspend(std::coroutine_handle<> caller) noexcept {
      SLUICE_ASSERT(!alarm_.caller_);
      alarm_.caller_ = caller;
      alarm_.reactor_.timers().schedule(alarm_, until_);
    }
    // True if the alarm was rung, false if the time passed.
    bool await_resume() noexcept { return std::exchange(alarm_.rung_, false); }

   private:
    Alarm& alarm_;
    Instant until_;
  };
  [[nodiscard]] Wait wait(Instant until) { return {*this, until}; }

  // Resumes the waiter in the loop's next turn, not from within this call. (A timer would be up to a tick late.)
  void ring() {
    rung_ = true;
    if (caller_) reactor_.at_next_turn(*this);
  }

 private:
  static void expired(Timer& timer) noexcept { static_cast<Alarm&>(timer).resume(); }
  // The hook of a ring may outlive the wait that has taken it.
  static void turned(TurnHook& hook) noexcept {
    auto& self = static_cast<Alarm&>(hook);
    if (self.rung_) self.resume();
  }
  void resume() noexcept {
    if (const auto caller = std::exchange(caller_, {})) caller.resume();
  }
  void forget() noexcept {
    caller_ = {};
    reactor_.timers().cancel(*this);
  }

  Reactor& reactor_;
  std::coroutine_handle<> caller_;
  bool rung_ = false;
};

}  // namespace sluice::core
