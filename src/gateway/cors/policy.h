#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/cors/options.h"
#include "gateway/policy.h"

namespace sluice::gateway::cors {

// One core's [policy.NAME] of type "cors": tells browsers whose pages may call the route (Fetch, 3.2). It refuses
// nobody; what it does not allow, the browser keeps from the page.
class CorsPolicy final : public Policy {
 public:
  explicit CorsPolicy(const Options& options);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  void after(http::Exchange& exchange, http::Slot& slot, http::Response& response) override;
  [[nodiscard]] std::optional<http::Response> preflight(http::Exchange& exchange) override;

 private:
  [[nodiscard]] bool allows(std::string_view origin) const;
  // Who may read the answer. `origin`: empty for a request that may not.
  void add_origin(http::Response& response, std::string_view origin) const;

  const Options options_;
  bool any_ = false;     // origin, and the answer is the same for all
  std::string headers_;  // "" : those that are asked for
  const std::string expose_;
  const std::string max_age_;  // seconds
};

}  // namespace sluice::gateway::cors
