#pragma once

#include <coroutine>
#include <cstddef>

#include "core/mailbox.h"
#include "core/reactor.h"

namespace sluice::http::compress {

// Compressing takes a core longer than anything else that it does, so the bytes of one turn are limited: who finds the
// limit reached waits in line for one of the next turns, and other connections are served in between.
class Turnstile {
 public:
  static constexpr std::size_t turn_bytes = 64 * 1024;

  Turnstile(core::Reactor& reactor, core::Mailbox& mailbox);
  Turnstile(const Turnstile&) = delete;
  ~Turnstile();  // nobody waits any more

  // May go on at once.
  [[nodiscard]] bool open();
  // What has been compressed, after waiting or without having asked.
  void count(std::size_t bytes);

  // `co_await Turn(turnstile)` where it is not open. Destroying the coroutine leaves the line.
  class [[nodiscard]] Turn {
   public:
    explicit Turn(Turnstile& turnstile) : turnstile_(turnstile) {}
    Turn(const Turn&) = delete;
    ~Turn() { leave(); }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> caller) noexcept {
      caller_ = caller;
      turnstile_.add(*this);
    }
    void await_resume() const noexcept {}

   private:
    friend class Turnstile;
    void leave() noexcept;

    Turnstile& turnstile_;
    std::coroutine_handle<> caller_;
    Turn* next_ = nullptr;
    Turn* previous_ = nullptr;
    bool waits_ = false;
  };

 private:
  // Posted to the own core: it arrives with the next turn. One that is under way outlives the turnstile.
  struct NextTurn : core::Letter {
    explicit NextTurn(Turnstile& owner);
    Turnstile* owner;
    bool posted = false;
  };

  void add(Turn& turn) noexcept;
  void ask_for_turn() noexcept;
  void serve() noexcept;
  void begin_turn();

  core::Reactor& reactor_;
  core::Mailbox& mailbox_;
  NextTurn* const next_turn_;
  Turn* first_ = nullptr;
  Turn* last_ = nullptr;
  Instant turn_ = never;
  std::ptrdiff_t left_ = 0;
};

}  // namespace sluice::http::compress
