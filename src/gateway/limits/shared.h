#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "gateway/limits/key.h"

namespace sluice::gateway::limits {

inline constexpr Duration full_ring_delay = 1ms;  // after a ring had no room for a message, before it is sent again

// The part of a limit that all cores share. It is immutable, except for one entry per core, which only that core
// touches. Messages between cores carry this object and look up the entry when they arrive.
class Shared {
 public:
  explicit Shared(unsigned cores) : parts_(cores) {}

  const Secret secret = make_secret();

  [[nodiscard]] unsigned cores() const { return static_cast<unsigned>(parts_.size()); }
  // The core that owns a key.
  [[nodiscard]] unsigned owner_of(const Key& key) const {
    return static_cast<unsigned>(((key.high >> 32) * parts_.size()) >> 32);
  }

  // Must be called on `core`. Returns null if the core has no part, or no longer has one.
  template <class Part>
  [[nodiscard]] std::shared_ptr<Part> part(unsigned core) const {
    return std::static_pointer_cast<Part>(parts_[core].lock());
  }
  void set_part(unsigned core, const std::shared_ptr<void>& part) { parts_[core] = part; }

 private:
  std::vector<std::weak_ptr<void>> parts_;  // by core
};

}  // namespace sluice::gateway::limits
