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
  std::uint64_t resets = 0;   // clients that were told to read anew
  std::uint64_t refused = 0;  // over the limit of clients

  [[nodiscard]] Readings readings() const;
};

// One core's view of the changes of one endpoint: the last events, which all its clients read at their own pace, and
// those who wait for the next. A client has no queue of its own: who is behind the oldest event that is kept gets a
// reset.
//
//   first() <= number of each kept event <= last();  first() == last() + 1 where none is kept
class Feed : core::TurnHook {
 public:
  // How many clients are woken in one turn of the loop: each writes, and all together they would keep everybody else
  // waiting. Those whose turn comes later read all that has come by then at once.
  static constexpr std::size_t clients_a_turn = 32;

  struct Limits {
    std::size_t events = 1024;
    std::size_t bytes = 1 << 20;
  };
  class Wait;

  Feed(core::Reactor& reactor, std::string boot, Limits limits)
      : TurnHook(&Feed::next_turn), reactor_(reactor), boot_(std::move(boot)), limits_(limits) {}
  Feed(const Feed&) = delete;
  ~Feed();

  // The next event; its number is last() + 1.
  void add(std::shared_ptr<const Event> event);
  // Those who wait go on, after one or more add(), the first of them at once.
  void wake_all();
  // The server is ending: those who read are to end too.
  void drain();
  [[nodiscard]] bool draining() const { return draining_; }

  [[nodiscard]] std::uint64_t last() const { return last_; }
  [[nodiscard]] std::uint64_t first() const { return events_.empty() ? last_ + 1 : events_.front()->number; }
  [[nodiscard]] const std::string& boot() const { return boot_; }
  [[nodiscard]] core::Reactor& reactor() { return reactor_; }

  // Where a client goes on that has seen the event `id`; nothing: it has to be reset. Another core may have been ahead
  // of this one, by less than what is kept.
  [[nodiscard]] std::optional<std::uint64_t> resume(std::string_view id) const;
  // Appends events behind the number `seen`, up to about `most` bytes and at least one, and moves it on.
  void read(std::uint64_t& seen, Buffer& out, std::size_t most);
  // Appends a reset to the last event.
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
  // A ring of links; this one is its beginning.
  struct Ring : Link {
    Ring() { next = previous = this; }
    [[nodiscard]] bool empty() const { return next == this; }
    void append(Link& link) noexcept {
      link.previous = previous;
      link.next = this;
      previous->next = &link;
      previous = &link;
    }
    // All of `other`, which is empty then.
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
  std::size_t bytes_ = 0;  // of their frames
  std::uint64_t last_ = 0;
  bool draining_ = false;
  Ring waiters_;
  Ring woken_;  // those that go on, in their order
};

// `co_await Feed::Wait(feed, until)`: until there is news, or that time has come. Destroying it cancels.
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
