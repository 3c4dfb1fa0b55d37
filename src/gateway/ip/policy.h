#pragma once

#include <cstdint>
#include <optional>

#include "core/ip_ranges.h"
#include "gateway/ip/options.h"
#include "gateway/policy.h"

namespace sluice::gateway::ip {

// One core's [policy.NAME] of type "ip": admits clients by their address, and answers the others with 403. A client of
// a unix socket has no address and is refused.
class IpPolicy final : public PolicyOf<IpPolicy> {
 public:
  explicit IpPolicy(const Options& options);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot&) override;
  [[nodiscard]] Readings readings() const override;

 private:
  core::IpRanges allow_;  // empty: all addresses
  core::IpRanges deny_;
  std::uint64_t refusals_ = 0;
};

}  // namespace sluice::gateway::ip
