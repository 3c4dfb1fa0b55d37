#include "http/identity.h"

#include <chrono>

#include "core/reactor.h"

namespace sluice::http {

Instant expiry(double expires_s, const core::Reactor& reactor) {
  constexpr double longest_life_s = 1e9;
  constexpr Duration late = 100ms;  // both clocks lag by some milliseconds; nothing may end before its token expires
  if (expires_s == std::numeric_limits<double>::infinity()) return never;
  const double left_s = expires_s - static_cast<double>(reactor.wall_clock_ns()) / 1e9;
  if (!(left_s < longest_life_s)) return never;
  if (left_s <= 0) return reactor.now();
  return reactor.now() + late + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(left_s));
}

Response refuse_permission(const Exchange& exchange, std::string_view detail) {
  const auto* const challenge = exchange.attributes.find<Challenge>();
  if (challenge == nullptr) return problem(403, detail);
  Response response = problem(401, detail);
  response.fields.add_trusted("WWW-Authenticate", challenge->text);
  return response;
}

}  // namespace sluice::http
