#pragma once

#include <coroutine>
#include <cstddef>

#include "core/reactor.h"
#include "core/waiting_line.h"

namespace sluice::http::compress {

// Limits the bytes that a core compresses in one turn of the loop, because compression is its most expensive work. Once
// the limit is reached, further bodies wait in a queue for a later turn, and other connections are served in between.
class Turnstile : core::TurnHook {
 public:
  static constexpr std::size_t turn_bytes = 64 * 1024;

  explicit Turnstile(core::Reactor& reactor) : TurnHook(&Turnstile::serve), reactor_(reactor) {}

  // Whether the caller may compress at once.
  [[nodiscard]] bool open();
  // Counts compressed bytes, also of a caller that has not waited or asked.
  void count(std::size_t bytes);

  // `co_await Turn(turnstile)` if open() is false. Destroying the coroutine removes it from the queue.
  class [[nodiscard]] Turn {
   public:
    explicit Turn(Turnstile& turnstile) : turnstile_(turnstile) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) noexcept {
      place_.join(turnstile_.line_, caller);
      turnstile_.reactor_.at_next_turn(turnstile_);
    }
    void await_resume() const noexcept {}

   private:
    Turnstile& turnstile_;
    core::WaitingLine::Place place_;
  };

 private:
  static void serve(core::TurnHook& hook) noexcept;
  void begin_turn();

  core::Reactor& reactor_;
  core::WaitingLine line_;
  Instant turn_ = never;
  std::ptrdiff_t left_ = 0;
};

}  // namespace sluice::http::compress
