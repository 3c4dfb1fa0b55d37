#pragma once

#include <cstdint>

#include "core/sharded.h"
#include "gateway/limits/key.h"

namespace sluice::gateway::limits {

class Permits;
class RateLimiter;

// The part of a limit that all cores share: how its keys are made, and its parts on the cores, which are of one of the
// two kinds.
class Shared {
 public:
  explicit Shared(unsigned cores) : limiters(cores), permits(cores) {}

  [[nodiscard]] unsigned cores() const { return limiters.cores(); }
  // The core that owns a key.
  [[nodiscard]] unsigned owner_of(const Key& key) const {
    return static_cast<unsigned>(((key.high >> 32) * cores()) >> 32);
  }

  const Secret secret = make_secret();
  const core::Sharded<RateLimiter> limiters;
  const core::Sharded<Permits> permits;
};

}  // namespace sluice::gateway::limits
