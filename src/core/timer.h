#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace sluice::core {

class TimerWheel;

// A callback that is due at an instant. Intrusive: it belongs to its owner, is linked into at most one wheel, and its
// destructor unlinks it. `fire` runs on the wheel's core after the timer was unlinked; it may reschedule or destroy it.
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

// A hierarchical timing wheel: schedule, cancel and reschedule are O(1). A timer never fires early. It fires in the
// first turn of the loop after its instant, up to one tick (1 ms) late.
class TimerWheel {
 public:
  explicit TimerWheel(Instant now);
  TimerWheel(const TimerWheel&) = delete;
  ~TimerWheel();  // disarms the remaining timers without firing them

  // Arms the timer, or moves it if it is already armed. A timer for a past instant fires at the next advance(). `never`
  // disarms it.
  void schedule(Timer& timer, Instant when);
  void cancel(Timer& timer);

  // Fires all due timers. Timers that a callback schedules for now or earlier fire at the next advance().
  void advance(Instant now);
  // A lower bound for the instant of the first due timer, not before now; `never` if nothing is armed.
  [[nodiscard]] Instant next() const;
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr int levels = 6;
  static constexpr int slot_bits = 6;
  static constexpr int slots = 1 << slot_bits;
  static constexpr Duration tick = std::chrono::milliseconds(1);

  static constexpr std::uint16_t firing = levels * slots;  // the list of the tick that is being fired

  struct Found {
    std::uint64_t tick;  // the beginning of the slot
    int slot;            // -1: no slot
  };

  void link(Timer& timer);
  void unlink(Timer& timer);
  [[nodiscard]] Found find() const;  // the occupied slot that begins first
  void fire(int slot);
  void cascade(int slot);

  std::array<Timer*, levels * slots + 1> heads_{};
  std::array<std::uint64_t, levels> occupied_{};  // one bit per slot
  Instant start_;
  std::uint64_t now_tick_ = 0;  // all earlier ticks have fired
  std::size_t size_ = 0;
};

}  // namespace sluice::core
