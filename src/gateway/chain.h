#pragma once

#include <utility>
#include <vector>

#include "http/policy.h"

namespace sluice::gateway {

// The policies of a route that has several, in the order of its `use`: the first that answers is the last that is
// asked.
class Chain final : public http::Policy {
 public:
  // They outlive the chain.
  explicit Chain(std::vector<http::Policy*> policies) : policies_(std::move(policies)) {}

  [[nodiscard]] std::optional<http::Response> check(http::Request& request) override {
    for (http::Policy* policy : policies_) {
      if (auto response = policy->check(request)) return response;
    }
    return std::nullopt;
  }

 private:
  std::vector<http::Policy*> policies_;
};

}  // namespace sluice::gateway
