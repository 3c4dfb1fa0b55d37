#pragma once

#include <algorithm>
#include <cstdint>

#include "gateway/proxy/options.h"

namespace sluice::gateway {

// Limits the retries of one core to a share of its requests, so that they do not multiply the load on servers that are
// overloaded. Unused retries are saved up, to a limit.
class RetryBudget {
 public:
  explicit RetryBudget(const RetryOptions& options) : RetryBudget(options, one * options.at_least) {}
  // With other options, but the saved retries stay as far as these options allow.
  RetryBudget(const RetryOptions& options, const RetryBudget& before) : RetryBudget(options, before.saved_) {}

  void add_request() { saved_ = std::min(saved_ + share_, most_); }
  // Returns false if no retry is left.
  [[nodiscard]] bool take_retry() {
    if (share_ == one) return true;
    if (saved_ < one) return false;
    saved_ -= one;
    return true;
  }

 private:
  static constexpr std::uint32_t one = 100;  // one retry

  RetryBudget(const RetryOptions& options, std::uint32_t saved)
      : share_(options.percent()),
        most_(share_ != 0 ? one * std::max(options.at_least, 1U) : 0),
        saved_(std::min(saved, most_)) {}

  std::uint32_t share_;  // what a request adds
  std::uint32_t most_;
  std::uint32_t saved_;  // <= most_
};

}  // namespace sluice::gateway
