#pragma once

#include <coroutine>

#include "core/reactor.h"
#include "core/waiting_line.h"

namespace sluice::core {

// Work that a core does in addition to its own, mostly for other cores. `co_await errands.turn()` continues in a later
// turn of the loop, after everything that is ready. Each turn resumes one waiting errand, in order of arrival. The
// core's own work therefore waits for at most one errand at a time; long errands must be split into pieces. Destroying
// the coroutine cancels. The Errands object must outlive its waiters.
class Errands : TurnHook {
 public:
  explicit Errands(Reactor& reactor) : TurnHook(&Errands::run), reactor_(reactor) {}

  class [[nodiscard]] Turn {
   public:
    explicit Turn(Errands& errands) : errands_(errands) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) noexcept {
      place_.join(errands_.line_, caller);
      errands_.reactor_.at_next_turn(errands_);
    }
    void await_resume() const noexcept {}

   private:
    Errands& errands_;
    WaitingLine::Place place_;
  };
  [[nodiscard]] Turn turn() { return Turn(*this); }

 private:
  static void run(TurnHook& hook) noexcept {
    auto& self = static_cast<Errands&>(hook);
    if (self.line_.empty()) return;  // all waiters were cancelled
    const std::coroutine_handle<> first = self.line_.take_first();
    if (!self.line_.empty()) self.reactor_.at_next_turn(self);
    first.resume();
  }

  Reactor& reactor_;
  WaitingLine line_;
};

}  // namespace sluice::core
