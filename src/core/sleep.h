#pragma once

#include <coroutine>

#include "core/reactor.h"

namespace sluice::core {

// `co_await Sleep(reactor, until)`. Destroying the coroutine cancels it.
class [[nodiscard]] Sleep : Timer {
 public:
  Sleep(Reactor& reactor, Instant until) : Timer(&Sleep::wake), reactor_(reactor), until_(until) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    reactor_.timers().schedule(*this, until_);
  }
  void await_resume() const noexcept {}

 private:
  static void wake(Timer& timer) noexcept { static_cast<Sleep&>(timer).caller_.resume(); }

  Reactor& reactor_;
  Instant until_;
  std::coroutine_handle<> caller_;
};

}  // namespace sluice::core
