#pragma once

#include <cstdint>
#include <functional>

#include "base/time.h"

namespace sluice::gateway {

class Tunnel;

// The tunnels of one upstream on one core.
class Tunnels {
 public:
  // Counts of one server's tunnels.
  struct Counters {
    std::uint64_t begun = 0;
    std::uint64_t open = 0;
  };

  Tunnels() = default;
  Tunnels(const Tunnels&) = delete;

  // Arranges that the tunnels for which `wanted` returns true are cut at `until`.
  void cut(Instant until, const std::function<bool(const Tunnel&)>& wanted);

 private:
  friend class Tunnel;
  Tunnel* newest_ = nullptr;
};

}  // namespace sluice::gateway
