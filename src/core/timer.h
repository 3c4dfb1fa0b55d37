#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace sluice::core {

class TimerWheel;

// Something that is to happen at an instant. Intrusive: owned by whoever waits, linked into at most one wheel, unlinked
// by its destructor. `fire` runs on the wheel's core, after the timer has been unlinked; it may reschedule or destroy it.
class Timer {
 public:
  using Callback = void (*)(Timer&) noexcept;

  explicit Timer(Callback fire) : fire_(fire) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();

  [[nodiscard]] bool armed() const { return wheel_ != nullptr; }
  [[nodiscard]] Instant when() const { return when_; }

 private:
  friend class TimerWheel;
  Callback fire_;
  Timer* next_ = nullptr;
  Timer* previous_ = nullptr;
  TimerWheel* wheel_ = nullptr;
  Instant when_ = never;
  std::uint16_t slot_ = 0;  // level * slots + index, while armed
};

// Hierarchical timing wheel: schedule, cancel and reschedule are O(1). A timer never fires early, and late by at most
// one tick (1 ms) beyond the turn of the loop that sees it.
class TimerWheel {
 public:
  explicit TimerWheel(Instant now);
  TimerWheel(const TimerWheel&) = delete;
  ~TimerWheel();  // disarms what is left, without firing

  // Arms the timer, or moves it if it is armed already. An instant in the past fires at the next advance().
  // `never` disarms.
  void schedule(Timer& timer, Instant when);
  void cancel(Timer& timer);

  // Fires everything that is due. Timers that a callback schedules for now or earlier fire at the next advance().
  void advance(Instant now);
  // An instant no later than the first one due and no earlier than now; `never` when nothing is armed.
  [[nodiscard]] Instant next() const;
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr int levels = 6;
  static constexpr int slot_bits = 6;
  static constexpr int slots = 1 << slot_bits;
  static constexpr Duration tick = std::chrono::milliseconds(1);

  static constexpr std::uint16_t firing = levels * slots;  // the list of the tick that is being fired

  struct Found {
    std::uint64_t tick;  // at which the slot begins
    int slot;            // -1: none
  };

  void link(Timer& timer);
  void unlink(Timer& timer);
  [[nodiscard]] Found find() const;  // the occupied slot that begins first
  void fire(int slot);
  void cascade(int slot);

  std::array<Timer*, levels * slots + 1> heads_{};
  std::array<std::uint64_t, levels> occupied_{};  // a bit a slot
  Instant start_;
  std::uint64_t now_tick_ = 0;  // everything before it has fired
  std::size_t size_ = 0;
};

}  // namespace sluice::core
