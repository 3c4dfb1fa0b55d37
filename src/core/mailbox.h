#pragma once

#include <atomic>

#include "core/reactor.h"

namespace sluice::core {

// Something that a foreign thread hands to a core. Intrusive: whoever posts it owns it until `deliver` runs, which may
// destroy it, on the mailbox's core.
struct Letter {
  using Callback = void (*)(Letter&) noexcept;
  explicit Letter(Callback deliver) : deliver(deliver) {}
  Letter(const Letter&) = delete;
  Letter& operator=(const Letter&) = delete;

  Letter* next = nullptr;
  Callback deliver;
};

// Foreign threads to one core. Posting is lock-free and allocates nothing; the post that finds the box empty wakes the
// core. The mailbox and its reactor outlive every thread that posts: a refused post still reads the mailbox, and an
// accepted one may wake the reactor after its letter has been delivered.
class Mailbox {
 public:
  explicit Mailbox(Reactor& reactor) : reactor_(reactor) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox() { close(); }

  // Of the owning core.
  [[nodiscard]] Reactor& reactor() const { return reactor_; }

  // From any thread. False: the core has ended, and the letter is still the caller's.
  [[nodiscard]] bool post(Letter& letter) noexcept;

  // By the owning core, once a turn: delivers what has been posted, in the order of posting. What is posted meanwhile
  // waits for the next call, and has woken the reactor.
  void deliver() noexcept;

  // By the owning core when it ends: delivers what has been posted before, and refuses everything after.
  void close() noexcept;
  [[nodiscard]] bool closed() const { return top_.load(std::memory_order_relaxed) == &closed_; }

 private:
  static void deliver_all(Letter* newest) noexcept;

  Reactor& reactor_;
  mutable Letter closed_{nullptr};  // the top of a closed box; never delivered
  // A stack, newest first. It has a cache line for itself: foreign threads write it, the core polls it.
  alignas(64) std::atomic<Letter*> top_{nullptr};
};

}  // namespace sluice::core
