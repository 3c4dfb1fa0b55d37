#pragma once

#include <atomic>

#include "core/reactor.h"

namespace sluice::core {

// A message that another thread hands to a core. Intrusive: the poster owns it until `deliver` runs on the mailbox's
// core; `deliver` may destroy it.
struct Letter {
  using Callback = void (*)(Letter&) noexcept;
  explicit Letter(Callback deliver) : deliver(deliver) {}
  Letter(const Letter&) = delete;
  Letter& operator=(const Letter&) = delete;

  Letter* next = nullptr;
  Callback deliver;
};

// Carries messages from other threads to one core. Posting is lock-free and does not allocate. A post to an empty
// mailbox wakes the core. The mailbox and its reactor must outlive every thread that posts: a refused post still reads
// the mailbox, and an accepted post may wake the reactor after its letter has been delivered.
class Mailbox {
 public:
  explicit Mailbox(Reactor& reactor) : reactor_(reactor) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox() { close(); }

  // The reactor of the owning core.
  [[nodiscard]] Reactor& reactor() const { return reactor_; }

  // May be called from any thread. Returns false if the core has ended; the letter then still belongs to the caller.
  [[nodiscard]] bool post(Letter& letter) noexcept;

  // Called by the owning core once a turn: delivers what has been posted, in the order of posting. Letters that are
  // posted meanwhile wake the reactor and wait for the next call.
  void deliver() noexcept;

  // Called by the owning core when it ends: delivers what has been posted, and refuses all later posts.
  void close() noexcept;
  [[nodiscard]] bool closed() const { return top_.load(std::memory_order_relaxed) == &closed_; }

 private:
  static void deliver_all(Letter* newest) noexcept;

  Reactor& reactor_;
  mutable Letter closed_{nullptr};  // marks a closed mailbox when it is the top; never delivered
  // A stack, newest first. It has its own cache line because other threads write it while the core polls it.
  alignas(64) std::atomic<Letter*> top_{nullptr};
};

}  // namespace sluice::core
