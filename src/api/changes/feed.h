#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/changes/event.h"
#include "base/buffer.h"
#include "base/reading.h"
#include "core/reactor.h"
#include "core/timer.h"

namespace sluice::api::changes {

struct Counters {
  std::uint64_t clients = 0;  // gauge
  std::uint64_t sent = 0;     // events to clients
  std::uint64_t resets = 0;   // clients that had to read the whole resource again
  std::uint64_t refused = 0;  // clients above the limit

  [[nodiscard]] Readings readings() const;
};

// One core's view of the changes of one endpoint: the last events, which each client reads at its own pace, and the
// clients that wait for the next event. Clients have no queues of their own. A client gets a reset if it has missed an
// event that is no longer kept.
//
//  first() <= number of each kept event <= last();  first() == last() + 1 if none is kept
class Feed : core::TurnHook {
 public:
  // How many clients are woken in one turn of the loop. Each of them writes, and all at once would delay everything
  // else on this core. Clients that are woken later read all events up to then at once.
  static constexpr std::size_t clients_a_turn = 8;

  struct Limits {
    std::size_t events = 1024;
    std::size_t bytes = 1 << 20;
  };
  class Wait;

  Feed(core::Reactor& reactor, std::string boot, Limits limits)
      : TurnHook(&Feed::next_turn), reactor_(reactor), boot_(std::move(boot)), limits_(limits) {}
  Feed(const Feed&) = delete;
  ~Feed();

  // Adds the next event; its number is last() + 1.
  void add(std::shared_ptr<const Event> event);
  // Wakes the waiting clients: some at once, the others in the next turns. Call it after one or more add().
  void wake_all();
  // The server is shutting down: readers must end.
  void drain();
  [[nodiscard]] bool draining() const { return draining_; }

  [[nodiscard]] std::uint64_t last() const { return last_; }
  [[nodiscard]] std::uint64_t first() const { return events_.empty() ? last_ + 1 : events_.front()->number; }
  [[nodiscard]] const std::string& boot() const { return boot_; }
  [[nodiscard]] core::Reactor& reactor() { return reactor_; }

  // The number to continue from for a client that has seen the event `id`. Returns nullopt if the client needs a reset.
  // The id may be greater than last(), if another core was ahead, but at most by Limits::events.
  [[nodiscard]] std::optional<std::uint64_t> resume(std::string_view id) const;
  // Appends events after the number `seen`, about `most` bytes but at least one event, and updates `seen`.
  void read(std::uint64_t& seen, Buffer& out, std::size_t most);
  // Appends a reset and sets `seen` to the last event.
  void reset(std::uint64_t& seen, Buffer& out, std::string_view reason);

  Counters counters;

 private:
  struct Link {
    Link* next = nullptr;
    Link* previous = nullptr;
    void unlink() noexcept {
      next->previous = previous;
      previous->next = next;
      next = previous = nullptr;
    }
  };
  // A ring of links; this link is its head.
  struct Ring : Link {
    Ring() { next = previous = this; }
    [[nodiscard]] bool empty() const { return next == this; }
    void append(Link& link) noexcept {
      link.previous = previous;
      link.next = this;
      previous->next = &link;
      previous = &link;
    }
    // Moves all links of `other` to the end.
    void append_all(Ring& other) noexcept {
      if (other.empty()) return;
      other.next->previous = previous;
      other.previous->next = this;
      previous->next = other.next;
      previous = other.previous;
      other.next = other.previous = &other;
    }
  };
  static void next_turn(core::TurnHook& hook) noexcept { static_cast<Feed&>(hook).wake_some(); }
  void wake_some();

  core::Reactor& reactor_;
  const std::string boot_;
  const Limits limits_;
  std::deque<std::shared_ptr<const Event>> events_;
  std::size_t bytes_ = 0;  // total size of the kept frames
  std::uint64_t last_ = 0;
  bool draining_ = false;
  Ring waiters_;
  Ring woken_;  // clients still to be woken, in order
};

// `co_await Feed::Wait(feed, until)` waits for new events or until that time. Destroying it cancels the wait.
class [[nodiscard]] Feed::Wait : core::Timer, Link {
 public:
  Wait(Feed& feed, Instant until) : Timer(&Wait::fired), feed_(feed), until_(until) {}
  ~Wait() { leave(); }

  bool await_ready() const noexcept { return feed_.draining_; }
  void await_suspend(std::coroutine_handle<> caller) noexcept;
  void await_resume() const noexcept {}

 private:
  friend class Feed;
  static void fired(core::Timer& timer) noexcept { static_cast<Wait&>(timer).wake(); }
  void wake() noexcept {
    leave();
    caller_.resume();
  }
  void leave() noexcept;

  Feed& feed_;
  const Instant until_;
  std::coroutine_handle<> caller_;
};

}  // namespace sluice::api::changes
