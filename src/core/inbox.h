#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "core/mailbox.h"
#include "core/reactor.h"

namespace sluice::core {

// A bounded queue of values from foreign threads to one core, which calls `take(T)` for each. Values of one thread
// arrive in its order. A push does not allocate and does not block; the first push of a burst posts one letter to the
// core's mailbox, which wakes the core. A turn of the loop takes at most `per_turn` values.
//
// Constructed and destroyed on the core, like the objects around Core::run(): it lives until the mailbox is closed, and
// outlives every thread that pushes. `take` must not throw, and must not destroy the inbox; it may close it.
//
//   head <= tail <= head + capacity, both only grow;   cell of position p = p mod capacity (a power of two)
//   A cell may be written at position p if its stamp is p, and read if its stamp is p + 1.
template <class T, class Take>
class Inbox : Letter, TurnHook {
  // A thread that has claimed a cell must fill it, or all later values would wait.
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  Inbox(Mailbox& mailbox, std::size_t capacity, Take take, std::size_t per_turn = 64)
      : Letter(&Inbox::on_letter),
        TurnHook(&Inbox::on_turn),
        mailbox_(mailbox),
        mask_(capacity - 1),
        per_turn_(per_turn),
        cells_(std::make_unique<Cell[]>(capacity)),
        take_(std::move(take)) {
    SLUICE_ASSERT(std::has_single_bit(capacity) && capacity > 1 && per_turn > 0);
    for (std::size_t index = 0; index < capacity; ++index) cells_[index].stamp.store(index, std::memory_order_relaxed);
  }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox() {
    close();
    SLUICE_ASSERT(mailbox_.closed() || pending() || !rung_.load(std::memory_order_relaxed));
  }

  // May be called from any thread. Returns false if the inbox is full or closed; the value is then unchanged.
  [[nodiscard]] bool try_push(T&& value) noexcept {
    std::size_t tail = tail_.load(std::memory_order_relaxed);
    for (;;) {
      if ((tail & closed_bit) != 0) return false;
      Cell& cell = cells_[tail & mask_];
      const std::size_t stamp = cell.stamp.load(std::memory_order_acquire);
      if (stamp < tail) return false;
      if (stamp > tail) {
        tail = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(tail, tail + 1, std::memory_order_relaxed)) {
        ::new (static_cast<void*>(cell.bytes)) T(std::move(value));
        cell.stamp.exchange(tail + 1);  // before rung_ is read: cheaper than a store and a fence
        ring();
        return true;
      }
    }
  }
  // May be called from any thread.
  [[nodiscard]] bool closed() const { return (tail_.load(std::memory_order_relaxed) & closed_bit) != 0; }

  // Called by the owning core: refuses all later pushes, and destroys the values that are left. Waits for threads that
  // are in the middle of a push.
  void close() noexcept {
    const std::size_t tail = tail_.fetch_or(closed_bit, std::memory_order_relaxed) & ~closed_bit;
    while (head_ != tail) {
      if (readable()) {
        (void)pop();
      } else {
        std::this_thread::yield();
      }
    }
  }

 private:
  static constexpr std::size_t closed_bit = ~(~std::size_t{0} >> 1);

  struct Cell {
    std::atomic<std::size_t> stamp;
    alignas(T) std::byte bytes[sizeof(T)];
  };

  // A thread publishes its value and then reads rung_. The core clears rung_ and then looks for values. All four are
  // sequentially consistent, so one of the two sees the other's store, and no wake-up is lost.
  void ring() noexcept {
    if (rung_.load() || rung_.exchange(true)) return;
    (void)mailbox_.post(*this);  // false: the core has ended, and close() destroys the value
  }

  [[nodiscard]] bool readable() const noexcept {
    return cells_[head_ & mask_].stamp.load(std::memory_order_acquire) == head_ + 1;
  }
  [[nodiscard]] T pop() noexcept {
    Cell& cell = cells_[head_ & mask_];
    T& held = *std::launder(reinterpret_cast<T*>(cell.bytes));
    T value(std::move(held));
    held.~T();
    cell.stamp.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    return value;
  }

  // rung_ is true until nothing is left, so that no thread posts the letter meanwhile.
  void take_some() noexcept {
    for (std::size_t taken = 0; taken < per_turn_;) {
      if (readable()) {
        take_(pop());
        ++taken;
        continue;
      }
      rung_.store(false);  // the letter may be posted again
      if (cells_[head_ & mask_].stamp.load() != head_ + 1 || rung_.exchange(true)) return;
    }
    mailbox_.reactor().at_next_turn(*this);
  }
  static void on_letter(Letter& letter) noexcept { static_cast<Inbox&>(letter).take_some(); }
  static void on_turn(TurnHook& hook) noexcept { static_cast<Inbox&>(hook).take_some(); }

  Mailbox& mailbox_;
  const std::size_t mask_;
  const std::size_t per_turn_;
  const std::unique_ptr<Cell[]> cells_;
  Take take_;
  std::size_t head_ = 0;                          // used by the core
  alignas(64) std::atomic<std::size_t> tail_{0};  // with the closed bit
  alignas(64) std::atomic<bool> rung_{false};     // the letter is posted, or the core takes values
};

}  // namespace sluice::core
