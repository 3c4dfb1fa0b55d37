#pragma once

#include <cstdint>

#include "gateway/limits/options.h"
#include "gateway/policy.h"

namespace sluice::gateway::limits {

// One core's [policy.NAME] of type "body-limit": answers 413 to a body above the limit. If the request declares the
// length, it is answered at once; otherwise when the received part exceeds the limit.
class BodyLimitPolicy final : public PolicyOf<BodyLimitPolicy> {
 public:
  explicit BodyLimitPolicy(const BodyLimitOptions& options) : size_(options.size) {}

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  [[nodiscard]] Readings readings() const override;

 private:
  const std::uint64_t size_;
  std::uint64_t refused_ = 0;
};

}  // namespace sluice::gateway::limits
