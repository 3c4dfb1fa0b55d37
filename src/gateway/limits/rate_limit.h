#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/limits/key.h"
#include "gateway/limits/options.h"
#include "gateway/limits/rate_limiter.h"
#include "gateway/policy.h"

namespace sluice::gateway::limits {

[[nodiscard]] Rate rate_of(const WrittenRate& written, std::optional<std::uint32_t> burst);

// One core's [policy.NAME] of type "rate-limit": answers 429 if a key has no token left.
class RateLimitPolicy final : public PolicyOf<RateLimitPolicy> {
 public:
  RateLimitPolicy(const RateLimitOptions& options, std::string_view name, const std::shared_ptr<Shared>& shared,
                  core::Reactor& reactor, core::MeshPort& port);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  void after(http::Exchange& exchange, http::Slot& slot, http::Response& response) override;

  void used_by(std::uint16_t route, const http::Pattern& pattern) override { keys_.used_by(route, pattern); }
  void begin() override { limiter_->serve(rate_, this); }
  [[nodiscard]] Readings readings() const override;

 private:
  struct Counters {
    std::uint64_t allowed = 0;
    std::uint64_t refused = 0;
    std::uint64_t full = 0;
    std::uint64_t late = 0;
    std::uint64_t waited = 0;
  };

  [[nodiscard]] Rate rate_for(const http::Exchange& exchange) const;
  [[nodiscard]] std::optional<http::Response> judge(const RateLimiter::Verdict& verdict, const Rate& rate,
                                                    http::Slot& slot);
  [[nodiscard]] core::Task<std::optional<http::Response>> judge_later(core::Task<RateLimiter::Verdict> taking,
                                                                      Rate rate, http::Slot& slot);
  [[nodiscard]] std::string policy_of(const Rate& rate) const;
  void tell(std::uint32_t left, const Rate& rate, http::Response& response) const;

  const Rate rate_;
  const std::optional<std::uint32_t> burst_;
  const std::string claim_;  // with a request's own rate; empty: none
  const bool tells_always_;
  std::string item_;    // the policy's name as in the RateLimit fields
  std::string policy_;  // the value of RateLimit-Policy
  KeyMaker keys_;
  const std::shared_ptr<RateLimiter> limiter_;
  Counters counters_;
};

}  // namespace sluice::gateway::limits
