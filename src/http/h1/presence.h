#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "http/h1/connection.h"

namespace sluice::http::h1 {

// Watches the client while the server works on its request. Calls `gone` once when the client resets the connection,
// when the grace period after the client's half-close has passed, or when the connection is cut. A stream has room for
// one reader only, so code that reads from the stream calls step_aside() before and step_back() after. Such code sees
// by its own read how the stream ends.
class Connection::Presence : core::Waiter {
 public:
  Presence(const Presence&) = delete;

  void step_aside() noexcept { unlink(); }
  // Calls `gone` at the earliest in the loop's next turn, because the task that `gone` cancels may be the caller.
  void step_back() noexcept { watch(); }
  // The stream has been cut. Calls `gone` in the next turn, unless this object has stepped aside for a reader, which
  // sees the cut itself.
  void end() noexcept {
    if (linked_) tell_after(Duration{});
  }

 protected:
  using Gone = void (*)(Presence& self) noexcept;
  Presence(Connection& connection, Gone gone)
      : Waiter(&Presence::changed), connection_(connection), gone_(gone), timer_(&Presence::expired, *this) {}
  ~Presence() {
    unlink();
    if (connection_.presence_ == this) connection_.presence_ = nullptr;
  }
  void begin() noexcept {
    connection_.presence_ = this;
    watch();
  }

 private:
  struct Grace : core::Timer {
    Grace(Callback fire, Presence& owner) : Timer(fire), owner(owner) {}
    Presence& owner;
  };
  static void changed(core::Waiter& waiter) noexcept {
    auto& self = static_cast<Presence&>(waiter);
    const core::Handle& handle = self.connection_.stream_.handle();
    if (handle.failed) return self.tell();
    if (handle.peer_ended && !self.timer_.armed()) self.tell_after(self.connection_.server_.options.half_close_grace);
  }
  static void expired(core::Timer& timer) noexcept { static_cast<Grace&>(timer).owner.tell(); }
  void watch() noexcept {
    core::Handle& handle = connection_.stream_.handle();
    SLUICE_ASSERT(handle.reader == nullptr);
    handle.reader = this;
    linked_ = true;
    if (handle.failed || connection_.stream_.is_cut()) {
      tell_after(Duration{});
    } else if (handle.peer_ended) {
      tell_after(connection_.server_.options.half_close_grace);
    }
  }
  void tell_after(Duration grace) noexcept {
    core::Reactor& reactor = connection_.stream_.reactor();
    reactor.timers().schedule(timer_, reactor.now() + grace);
  }
  void tell() noexcept {
    unlink();
    gone_(*this);
  }
  void unlink() noexcept {
    if (!linked_) return;
    linked_ = false;
    connection_.stream_.handle().reader = nullptr;
    connection_.stream_.reactor().timers().cancel(timer_);
  }

  Connection& connection_;
  const Gone gone_;
  Grace timer_;
  bool linked_ = false;
};

// Awaits a Task while the client is present. If the client leaves, the Task is destroyed, which cancels what it was
// waiting for.
template <class T>
class Connection::WhilePresent : Presence {
 public:
  WhilePresent(Connection& connection, core::Task<T> task)
      : Presence(connection, &WhilePresent::give_up),
        task_(std::move(task)),
        inner_(std::move(task_).operator co_await()) {}

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    caller_ = caller;
    begin();
    return inner_.await_suspend(caller);
  }
  // Returns nothing if the client has left.
  std::optional<T> await_resume() {
    step_aside();
    if (gone_) return std::nullopt;
    return inner_.await_resume();
  }

 private:
  static void give_up(Presence& presence) noexcept {
    auto& self = static_cast<WhilePresent&>(presence);
    self.gone_ = true;
    self.task_ = {};
    self.caller_.resume();
  }

  core::Task<T> task_;
  decltype(std::declval<core::Task<T>>().operator co_await()) inner_;
  std::coroutine_handle<> caller_;
  bool gone_ = false;
};

}  // namespace sluice::http::h1
