#pragma once

#include <coroutine>

#include "core/reactor.h"

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
    Turn(const Turn&) = delete;
    ~Turn() {
      if (caller_) errands_.unlink(*this);
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) noexcept {
      caller_ = caller;
      errands_.link(*this);
    }
    void await_resume() const noexcept {}

   private:
    friend class Errands;
    Errands& errands_;
    std::coroutine_handle<> caller_;  // while it waits
    Turn* next_ = nullptr;
    Turn* previous_ = nullptr;
  };
  [[nodiscard]] Turn turn() { return Turn(*this); }

 private:
  void link(Turn& turn) noexcept {
    turn.previous_ = newest_;
    (newest_ != nullptr ? newest_->next_ : oldest_) = &turn;
    newest_ = &turn;
    reactor_.at_next_turn(*this);
  }
  void unlink(Turn& turn) noexcept {
    (turn.next_ != nullptr ? turn.next_->previous_ : newest_) = turn.previous_;
    (turn.previous_ != nullptr ? turn.previous_->next_ : oldest_) = turn.next_;
    turn.caller_ = nullptr;
  }
  static void run(TurnHook& hook) noexcept {
    auto& self = static_cast<Errands&>(hook);
    if (self.oldest_ == nullptr) return;  // it was cancelled
    Turn& first = *self.oldest_;
    const std::coroutine_handle<> caller = first.caller_;
    self.unlink(first);
    if (self.oldest_ != nullptr) self.reactor_.at_next_turn(self);
    caller.resume();
  }

  Reactor& reactor_;
  Turn* oldest_ = nullptr;
  Turn* newest_ = nullptr;
};

}  // namespace sluice::core
