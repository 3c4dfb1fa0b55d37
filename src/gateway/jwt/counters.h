#pragma once

#include <array>
#include <cstdint>

#include "base/reading.h"
#include "gateway/jwt/token.h"

namespace sluice::gateway::jwt {

struct Counters {
  std::uint64_t hits = 0;           // tokens that were in the cache
  std::uint64_t verifications = 0;  // tokens that were verified and valid
  std::uint64_t anonymous = 0;      // requests that passed without a token (`optional`)
  std::array<std::uint64_t, refusal_count> refusals{};
  std::uint64_t cached_tokens = 0;  // gauge
  std::uint64_t cached_bytes = 0;   // likewise

  [[nodiscard]] Readings readings() const;
};

}  // namespace sluice::gateway::jwt
