#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "gateway/limits/key.h"

namespace sluice::gateway::limits {

inline constexpr Duration full_ring_delay = 1ms;  // before a message is sent again for which a ring had no room

// The part of a limit that all cores share. It is immutable, except that each core has an entry for its part, which
// only this core touches. Messages between the parts carry this object and look up the part when they arrive.
class Shared {
 public:
  explicit Shared(unsigned cores) : parts_(cores) {}

  const Secret secret = make_secret();

  [[nodiscard]] unsigned cores() const { return static_cast<unsigned>(parts_.size()); }
  // The core that owns a key.
  [[nodiscard]] unsigned owner_of(const Key& key) const {
    return static_cast<unsigned>(((key.high >> 32) * parts_.size()) >> 32);
  }

  // Call it on this core only. Null if the core has no part, or none any more.
  template <class Part>
  [[nodiscard]] std::shared_ptr<Part> part(unsigned core) const {
    return std::static_pointer_cast<Part>(parts_[core].lock());
  }
  void set_part(unsigned core, const std::shared_ptr<void>& part) { parts_[core] = part; }

 private:
  std::vector<std::weak_ptr<void>> parts_;  // by core
};

}  // namespace sluice::gateway::limits
