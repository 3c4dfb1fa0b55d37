#pragma once

#include <coroutine>

#include "core/reactor.h"
#include "core/waiting_line.h"

namespace sluice::core {

// What one core does beside its own work, for other cores mostly: `co_await errands.turn()` goes on in a later turn of
// the loop, behind everybody who is ready, and of all that wait one in each turn, in the order in which they came. So
// however much there is of it, the core's own work waits for one errand at a time; a long one is cut into pieces.
// Destroying the coroutine cancels. It outlives all that wait.
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
    if (self.line_.empty()) return;  // all were cancelled
    const std::coroutine_handle<> first = self.line_.take_first();
    if (!self.line_.empty()) self.reactor_.at_next_turn(self);
    first.resume();
  }

  Reactor& reactor_;
  WaitingLine line_;
};

}  // namespace sluice::core
