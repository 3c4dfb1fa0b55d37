#pragma once

#include <coroutine>
#include <cstddef>

#include "core/reactor.h"

namespace sluice::core {

// `co_await NextTurn(reactor)` continues in the next turn of the loop, so that other coroutines can run first.
// Destroying the coroutine cancels it.
class [[nodiscard]] NextTurn : TurnHook {
 public:
  explicit NextTurn(Reactor& reactor) : TurnHook(&NextTurn::run), reactor_(reactor) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    reactor_.at_next_turn(*this);
  }
  void await_resume() const noexcept {}

 private:
  static void run(TurnHook& hook) noexcept { static_cast<NextTurn&>(hook).caller_.resume(); }

  Reactor& reactor_;
  std::coroutine_handle<> caller_;
};

// Limits how many bytes a coroutine produces per turn. A producer whose peer reads fast enough would never wait, and
// other coroutines would never run.
class TurnShare {
 public:
  // `bytes`: how much it may produce in one turn of the loop.
  TurnShare(Reactor& reactor, std::size_t bytes)
      : reactor_(reactor), most_(bytes), left_(bytes), turn_(reactor.now()) {}

  // Returns true if the turn's share is used up; the caller should then `co_await next_turn()`.
  [[nodiscard]] bool spend(std::size_t bytes) {
    if (reactor_.now() != turn_) begin();
    const bool is_over = bytes >= left_;
    if (is_over) {
      is_heavy_ = true;
      begin();
    } else {
      left_ -= bytes;
    }
    return is_over;
  }
  [[nodiscard]] NextTurn next_turn() { return NextTurn(reactor_); }
  // True if the share has been used up at least once. Such a caller should start its next piece of work in a later
  // turn.
  [[nodiscard]] bool is_heavy() const { return is_heavy_; }

 private:
  void begin() {
    turn_ = reactor_.now();
    left_ = most_;
  }

  Reactor& reactor_;
  const std::size_t most_;
  std::size_t left_;
  Instant turn_;
  bool is_heavy_ = false;
};

}  // namespace sluice::core
