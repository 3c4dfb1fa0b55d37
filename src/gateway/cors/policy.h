#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/cors/options.h"
#include "gateway/policy.h"

namespace sluice::gateway::cors {

// One core's [policy.NAME] of type "cors": tells browsers whose pages may call the route (Fetch, 3.2). It refuses no
// request; the browser hides the answer from pages that are not allowed.
class CorsPolicy final : public PolicyOf<CorsPolicy> {
 public:
  explicit CorsPolicy(const Options& options);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  void after(http::Exchange& exchange, http::Slot& slot, http::Response& response) override;
  [[nodiscard]] std::optional<http::Response> preflight(http::Exchange& exchange) override;

 private:
  [[nodiscard]] bool allows(std::string_view origin) const;
  // Adds the fields that say which origin may read the answer. `origin`: the request's; empty if it may not.
  void add_origin(http::Response& response, std::string_view origin) const;

  const Options options_;
  bool any_ = false;     // any origin is allowed, and the answer is the same for all
  std::string headers_;  // empty: allows the headers that the browser asks for
  const std::string expose_;
  const std::string max_age_;  // seconds
};

}  // namespace sluice::gateway::cors
