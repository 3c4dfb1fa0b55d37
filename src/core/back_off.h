#pragma once

#include <algorithm>
#include <cstdint>

#include "core/reactor.h"
#include "core/sleep.h"
#include "core/task.h"

namespace sluice::core {

// A random duration between half of `most` and `most`. `state` is the generator's state and must not be 0 (xorshift).
[[nodiscard]] inline Duration jittered(std::uint64_t& state, Duration most) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return most - Duration(static_cast<std::int64_t>(state % static_cast<std::uint64_t>(most.count() / 2 + 1)));
}

// Pauses between attempts: each is twice as long as the one before, up to a limit, and is shortened by up to half at
// random. The randomness spreads out clients that failed at the same moment.
class BackOff {
 public:
  BackOff(Reactor& reactor, Duration first, Duration longest)
      : reactor_(reactor), pause_(first), longest_(longest), state_(seed(reactor)) {}

  // The end of the pause that begins now.
  [[nodiscard]] Instant next() {
    const Duration most = pause_;
    pause_ = std::min(pause_ * 2, longest_);
    return reactor_.now() + jittered(state_, most);
  }
  [[nodiscard]] Task<void> wait() { co_await Sleep(reactor_, next()); }

 private:
  // Seeds from the reactor's clock, so that a simulation is reproducible.
  static std::uint64_t seed(Reactor& reactor) {
    const auto ticks = static_cast<std::uint64_t>(reactor.now().time_since_epoch().count());
    return (ticks * 0x9E3779B97F4A7C15U) | 1;
  }

  Reactor& reactor_;
  Duration pause_;
  const Duration longest_;
  std::uint64_t state_;
};

}  // namespace sluice::core
