#include "gateway/policy.h"

#include <utility>

#include "gateway/apikey/policy.h"
#include "gateway/authrequest/policy.h"
#include "gateway/basic/policy.h"
#include "gateway/cors/policy.h"
#include "gateway/headers/policy.h"
#include "gateway/ip/policy.h"
#include "gateway/jwt/policy.h"
#include "gateway/limits/body_limit.h"
#include "gateway/limits/concurrency.h"
#include "gateway/limits/rate_limit.h"

namespace sluice::gateway {

std::unique_ptr<Policy> make_policy(const PolicyOptions& options, PolicyParts parts) {
  switch (options.type.value) {
    case PolicyType::jwt:
      return std::make_unique<jwt::JwtPolicy>(options.jwt, std::move(parts.keys), parts.reactor,
                                              std::move(parts.source));
    case PolicyType::cors:
      return std::make_unique<cors::CorsPolicy>(options.cors);
    case PolicyType::ip:
      return std::make_unique<ip::IpPolicy>(options.ip);
    case PolicyType::api_key:
      return std::make_unique<apikey::ApiKeyPolicy>(options.api_key, std::move(parts.table));
    case PolicyType::basic:
      return std::make_unique<basic::BasicPolicy>(options.basic, parts.reactor, parts.mailbox, parts.threads);
    case PolicyType::auth_request:
      return std::make_unique<authrequest::AuthRequestPolicy>(options.auth_request, std::move(parts.upstream),
                                                              std::move(parts.shared_upstream));
    case PolicyType::headers:
      return std::make_unique<headers::HeadersPolicy>(options.headers);
    case PolicyType::rate_limit:
      return std::make_unique<limits::RateLimitPolicy>(options.rate_limit, parts.name, parts.limit, parts.reactor,
                                                       parts.mesh);
    case PolicyType::concurrency:
      return std::make_unique<limits::ConcurrencyPolicy>(options.concurrency, parts.limit, parts.reactor, parts.mesh);
    case PolicyType::body_limit:
      return std::make_unique<limits::BodyLimitPolicy>(options.body_limit);
  }
  std::unreachable();
}

}  // namespace sluice::gateway
