#include "gateway/policy.h"

#include <utility>

#include "gateway/cors/policy.h"
#include "gateway/jwt/policy.h"

namespace sluice::gateway {

std::unique_ptr<Policy> make_policy(const PolicyOptions& options, std::shared_ptr<const jwt::KeySet> keys,
                                    const core::Reactor& reactor) {
  switch (options.type.value) {
    case PolicyType::jwt:
      return std::make_unique<jwt::JwtPolicy>(options.jwt, std::move(keys), reactor);
    case PolicyType::cors:
      return std::make_unique<cors::CorsPolicy>(options.cors);
  }
  std::unreachable();
}

}  // namespace sluice::gateway
