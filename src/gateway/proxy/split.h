#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "http/handler.h"

namespace sluice::gateway {

// Distributes requests among handlers by weight. If the sum of the weights is n, then of every n consecutive requests
// each handler gets as many as its weight, evenly spread (smooth weighted round robin).
class Split final : public http::Handler {
 public:
  // At least one weight must not be 0.
  void add(std::unique_ptr<http::Handler> handler, std::uint32_t weight) {
    shares_.push_back({std::move(handler), weight, 0});
    sum_ += weight;
  }

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override {
    Share* chosen = nullptr;
    for (Share& share : shares_) {
      share.credit += share.weight;
      if (share.weight != 0 && (chosen == nullptr || share.credit > chosen->credit)) chosen = &share;
    }
    chosen->credit -= sum_;
    return chosen->handler->handle(exchange);
  }

 private:
  struct Share {
    std::unique_ptr<http::Handler> handler;
    std::int64_t weight;
    std::int64_t credit;
  };
  std::vector<Share> shares_;
  std::int64_t sum_ = 0;
};

}  // namespace sluice::gateway
