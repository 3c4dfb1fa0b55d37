#pragma once

#include <limits>
#include <memory>
#include <string_view>

#include "base/time.h"
#include "http/claims.h"
#include "http/exchange.h"
#include "http/response.h"

namespace sluice::core {
class Reactor;
}

namespace sluice::http {

// Where credentials can be withdrawn before they expire. Belongs to one core.
class Withdrawals {
 public:
  virtual ~Withdrawals() = default;
  [[nodiscard]] virtual bool has(const Claims& claims) = 0;
};

// The attribute of a request whose sender a policy has authenticated.
struct Identity {
  std::shared_ptr<const Claims> claims;  // never null
  // When the credentials expire, including the policy's leeway: seconds since the Unix epoch.
  double expires_s = std::numeric_limits<double>::infinity();
};

// The attribute of a request beside its identity, if its credentials can be withdrawn.
struct Revocable {
  std::shared_ptr<Withdrawals> withdrawals;  // never null
};

// The attribute of a request that a policy has let pass without credentials.
struct Challenge {
  std::string_view text;  // the WWW-Authenticate field of a 401; valid as long as the exchange
};

// Refuses a request that lacks a permission: with 401 if it has passed without credentials, else with 403.
[[nodiscard]] Response refuse_permission(const Exchange& exchange, std::string_view detail);

// These return null if no policy has authenticated the sender.
[[nodiscard]] inline std::shared_ptr<const Claims> shared_claims_of(const Exchange& exchange) {
  const auto* const identity = exchange.attributes.find<Identity>();
  return identity != nullptr ? identity->claims : nullptr;
}
[[nodiscard]] inline const Claims* claims_of(const Exchange& exchange) {
  const auto* const identity = exchange.attributes.find<Identity>();
  return identity != nullptr ? identity->claims.get() : nullptr;
}

// The claim `sub`; empty if no policy gave one.
[[nodiscard]] inline std::string_view subject_of(const Exchange& exchange) {
  const Claims* const claims = claims_of(exchange);
  const auto* const subject = claims != nullptr ? claims->find("sub") : nullptr;
  return subject != nullptr ? std::string_view(subject->text) : std::string_view{};
}

// Infinity if the credentials do not expire, or if there are none.
[[nodiscard]] inline double expires_s_of(const Exchange& exchange) {
  const auto* const identity = exchange.attributes.find<Identity>();
  return identity != nullptr ? identity->expires_s : std::numeric_limits<double>::infinity();
}

// That time on the reactor's clock; `never` for infinity. See Standing.
[[nodiscard]] Instant expiry(double expires_s, const core::Reactor& reactor);

}  // namespace sluice::http
