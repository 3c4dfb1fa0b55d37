#pragma once

#include <cstdint>

#include "base/reading.h"
#include "http/filter.h"
#include "http/router.h"

namespace sluice::gateway {

// A [policy.NAME] on one core. A kind of policy derives from PolicyOf.
class Policy : public http::Filter {
 public:
  using http::Filter::Filter;
  // Tells the policy that this route uses it. Called before requests arrive.
  virtual void used_by(std::uint16_t /*route*/, const http::Pattern&) {}
  // Called when requests begin to use this policy, instead of the one that a reload has replaced.
  virtual void begin() {}
  [[nodiscard]] virtual Readings readings() const { return {}; }
};

template <class Self>
using PolicyOf = http::FilterOf<Self, Policy>;

}  // namespace sluice::gateway
