#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "gateway/proxy/balance.h"
#include "gateway/proxy/options.h"
#include "http/handler.h"

namespace sluice::gateway {

// Distributes requests among handlers by weight. If the sum of the weights is n, then of every n consecutive requests
// each handler gets as many as its weight, evenly spread (smooth weighted round robin).
//
// With `by`, all requests with the same value go to the same handler, on every core. A client that lacks the cookie
// `by` gets one with a random value. Other requests without the value are distributed as above.
class Split final : public http::Handler {
 public:
  explicit Split(std::optional<HashKey> by = std::nullopt) : by_(std::move(by)) {}

  // At least one weight must not be 0. Which values belong to a handler depends on the names and the weights.
  void add(std::unique_ptr<http::Handler> handler, std::string_view name, std::uint32_t weight);

  [[nodiscard]] core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  struct Share : Candidate {
    std::unique_ptr<http::Handler> handler;
  };
  // Answers the request, and gives the client its cookie.
  [[nodiscard]] core::Task<http::Response> issue_cookie(http::Exchange& exchange);
  [[nodiscard]] http::Handler& handler_for(std::string_view value) const;

  const std::optional<HashKey> by_;
  std::vector<std::unique_ptr<Share>> shares_;
  std::vector<Candidate*> candidates_;  // the same
};

}  // namespace sluice::gateway
