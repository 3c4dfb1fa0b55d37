#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/reactor.h"
#include "gateway/jwt/cache.h"
#include "gateway/jwt/counters.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/options.h"
#include "gateway/jwt/verifier.h"
#include "gateway/policy.h"

namespace sluice::gateway::jwt {

// One core's [policy.NAME] of type "jwt": a request must carry a token that verifies, whose claims then ride on it.
// Everything else is answered 401 with what RFC 6750, 3 asks for (400 where Authorization comes more than once).
class JwtPolicy final : public Policy {
 public:
  JwtPolicy(const Options& options, std::shared_ptr<const KeySet> keys, const core::Reactor& reactor);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot&) override {
    return judge(exchange.request);
  }

  // From now on; where they are others, what the old ones verified is forgotten.
  void set_keys(std::shared_ptr<const KeySet> keys) override;
  [[nodiscard]] Counters counters() const;
  [[nodiscard]] Readings readings() const override { return counters().readings(); }

 private:
  [[nodiscard]] std::optional<http::Response> judge(http::Request& request);
  http::Response refuse(Refusal why);

  const core::Reactor& reactor_;
  const bool optional_;
  const std::size_t token_limit_;
  std::shared_ptr<const KeySet> keys_;
  Verifier verifier_;
  Cache cache_;
  Counters counters_;
  std::array<std::string, refusal_count> challenges_;  // WWW-Authenticate
};

}  // namespace sluice::gateway::jwt
