#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

using Duration = std::chrono::nanoseconds;
using namespace std::chrono_literals;

// The reactor's clock: monotonic, and virtual in simulation, hence a type of its own that std's clocks don't mix with.
struct ReactorClock {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<ReactorClock>;
  static constexpr bool is_steady = true;
};
using Instant = ReactorClock::time_point;

inline constexpr Instant never = Instant::max();

}  // namespace sluice
