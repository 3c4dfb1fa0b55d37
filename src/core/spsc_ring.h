#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "base/assert.h"

namespace sluice::core {

// A bounded queue from one thread to one other thread. Values need not be movable: they are constructed, used and
// destroyed in their slot. Both sides are wait-free. Each end keeps a copy of the other end's index and reads the real
// index only when the ring looks full or empty by that copy. A busy ring therefore seldom moves a cache line for an
// index.
//
//   head <= tail <= head + capacity, both only grow;   slot of i = i mod capacity (a power of two)
template <class T>
class SpscRing {
 public:
  explicit SpscRing(std::size_t capacity) : mask_(capacity - 1), slots_(std::make_unique<Slot[]>(capacity)) {
    SLUICE_ASSERT(std::has_single_bit(capacity));
  }
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;
  ~SpscRing() {
    while (front() != nullptr) pop();
  }

  [[nodiscard]] std::size_t capacity() const { return mask_ + 1; }

  // For the producer. Returns false if the ring is full; the arguments are then unchanged.
  template <class... Args>
  [[nodiscard]] bool try_emplace(Args&&... args) {
    if (!has_room()) return false;
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    ::new (static_cast<void*>(slots_[tail & mask_].bytes)) T(std::forward<Args>(args)...);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }
  [[nodiscard]] bool has_room() {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - known_head_ <= mask_) [[likely]]
      return true;
    known_head_ = head_.load(std::memory_order_acquire);
    return tail - known_head_ <= mask_;
  }

  // For the consumer: the oldest value, or null if the ring is empty. pop() destroys it and frees its slot.
  [[nodiscard]] T* front() {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == known_tail_) [[unlikely]] {
      known_tail_ = tail_.load(std::memory_order_acquire);
      if (head == known_tail_) return nullptr;
    }
    return slot(head);
  }
  void pop() {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    SLUICE_ASSERT(head != known_tail_);
    slot(head)->~T();
    head_.store(head + 1, std::memory_order_release);
  }
  // For the consumer: the number of values in the ring. Reads the producer's index.
  [[nodiscard]] std::size_t readable() {
    known_tail_ = tail_.load(std::memory_order_acquire);
    return known_tail_ - head_.load(std::memory_order_relaxed);
  }

 private:
  struct Slot {
    alignas(T) std::byte bytes[sizeof(T)];
  };
  [[nodiscard]] T* slot(std::size_t index) { return std::launder(reinterpret_cast<T*>(slots_[index & mask_].bytes)); }

  const std::size_t mask_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<std::size_t> tail_{0};  // written by the producer
  std::size_t known_head_ = 0;                    // used by the producer
  alignas(64) std::atomic<std::size_t> head_{0};  // written by the consumer
  std::size_t known_tail_ = 0;                    // used by the consumer
};

}  // namespace sluice::core
