#include "core/timer.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace sluice::core {

Timer::~Timer() {
  if (wheel_ != nullptr) wheel_->cancel(*this);
}

TimerWheel::TimerWheel(Instant now) : start_(now) {}

TimerWheel::~TimerWheel() {
  for (Timer*& head : heads_) {
    while (head != nullptr) unlink(*head);
  }
}

void TimerWheel::schedule(Timer& timer, Instant when) {
  if (timer.wheel_ != nullptr) unlink(timer);
  if (when == never) return;
  timer.when_ = when;
  link(timer);
}

void TimerWheel::cancel(Timer& timer) {
  if (timer.wheel_ != nullptr) unlink(timer);
}

// A timer lies on the level of the highest digit (base 64) in which its tick differs from the current one, so each
// level's slots lie ahead of the current digit and never wrap.
void TimerWheel::link(Timer& timer) {
  constexpr std::uint64_t horizon = (std::uint64_t{1} << (levels * slot_bits)) - 1;
  const Duration since = timer.when_ - start_;
  std::uint64_t due = since <= Duration::zero() ? 0 : static_cast<std::uint64_t>((since + tick - Duration(1)) / tick);
  due = std::max(due, now_tick_);
  due = std::min(due, now_tick_ | horizon);  // beyond the horizon: waits at its end, and is linked again there
  const std::uint64_t difference = (due ^ now_tick_) | 1;
  const int level = (63 - std::countl_zero(difference)) / slot_bits;
  const auto index = static_cast<int>((due >> (level * slot_bits)) & (slots - 1));

  timer.slot_ = static_cast<std::uint16_t>(level * slots + index);
  Timer*& head = heads_[timer.slot_];
  timer.previous_ = nullptr;
  timer.next_ = head;
  if (head != nullptr) head->previous_ = &timer;
  head = &timer;
  timer.wheel_ = this;
  occupied_[static_cast<std::size_t>(level)] |= std::uint64_t{1} << index;
  ++size_;
}

void TimerWheel::unlink(Timer& timer) {
  if (timer.next_ != nullptr) timer.next_->previous_ = timer.previous_;
  if (timer.previous_ != nullptr) {
    timer.previous_->next_ = timer.next_;
  } else {
    heads_[timer.slot_] = timer.next_;
    if (timer.next_ == nullptr && timer.slot_ < firing) {
      occupied_[timer.slot_ / slots] &= ~(std::uint64_t{1} << (timer.slot_ % slots));
    }
  }
  timer.wheel_ = nullptr;
  timer.next_ = timer.previous_ = nullptr;
  --size_;
}

TimerWheel::Found TimerWheel::find() const {
  Found first{.tick = ~std::uint64_t{0}, .slot = -1};
  for (int level = levels - 1; level >= 0; --level) {
    const std::uint64_t bits = occupied_[static_cast<std::size_t>(level)];
    if (bits == 0) continue;
    const int shift = level * slot_bits;
    const int index = std::countr_zero(bits);
    const std::uint64_t block = now_tick_ >> shift >> slot_bits << slot_bits << shift;
    const std::uint64_t begins = block | (static_cast<std::uint64_t>(index) << shift);
    // If two levels begin at the same tick, the coarser one goes first, because its timers may be due at that tick.
    if (begins < first.tick) first = {.tick = begins, .slot = level * slots + index};
  }
  return first;
}

Instant TimerWheel::next() const {
  if (size_ == 0) return never;
  return start_ + static_cast<Duration::rep>(find().tick) * tick;
}

void TimerWheel::advance(Instant now) {
  const Duration since = now - start_;
  if (since < Duration::zero()) return;
  const auto target = static_cast<std::uint64_t>(since / tick);
  while (size_ != 0) {
    const Found found = find();
    if (found.slot < 0 || found.tick > target) break;
    now_tick_ = std::max(now_tick_, found.tick);
    if (found.slot < slots) {
      // After this, a timer that a callback schedules for the past goes to a later tick, so the loop ends.
      now_tick_ = found.tick + 1;
      fire(found.slot);
    } else {
      cascade(found.slot);
    }
  }
  now_tick_ = std::max(now_tick_, target);
}

void TimerWheel::cascade(int slot) {
  while (Timer* timer = heads_[static_cast<std::size_t>(slot)]) {
    unlink(*timer);
    link(*timer);
  }
}

// Moves the list to a separate slot first, because a callback may destroy any of its timers.
void TimerWheel::fire(int slot) {
  Timer*& list = heads_[firing];
  SLUICE_ASSERT(list == nullptr);
  while (Timer* timer = heads_[static_cast<std::size_t>(slot)]) {
    unlink(*timer);
    timer->slot_ = firing;
    timer->wheel_ = this;
    timer->next_ = list;
    if (list != nullptr) list->previous_ = timer;
    list = timer;
    ++size_;
  }
  while (Timer* timer = list) {
    unlink(*timer);
    timer->fire_(*timer);
  }
}

}  // namespace sluice::core
