#pragma once

#include <chrono>
#include <cstdint>

namespace sluice {

using Duration = std::chrono::nanoseconds;
using namespace std::chrono_literals;

// The reactor's clock: monotonic, and virtual in simulation. It has its own type so that it cannot be mixed with std's
// clocks.
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
