#include "http/identity.h"

#include <chrono>

#include "core/reactor.h"

namespace sluice::http {

Instant expiry(double expires_s, const core::Reactor& reactor) {
  constexpr double longest_life_s = 1e9;
  constexpr Duration late = 100ms;  // both clocks lag by some milliseconds; nothing may end before its token expires
  const double left_s = expires_s - static_cast<double>(reactor.wall_clock_ns()) / 1e9;
  if (!(left_s < longest_life_s)) return never;
  if (left_s <= 0) return reactor.now();
  return reactor.now() + late + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(left_s));
}

}  // namespace sluice::http
