#include "gateway/policies/make_policy.h"

#include <utility>

#include "gateway/apikey/policy.h"
#include "gateway/authrequest/policy.h"
#include "gateway/basic/policy.h"
#include "gateway/cors/policy.h"
#include "gateway/dry_run.h"
#include "gateway/headers/policy.h"
#include "gateway/ip/policy.h"
#include "gateway/jwt/policy.h"
#include "gateway/limits/body_limit.h"
#include "gateway/limits/concurrency.h"
#include "gateway/limits/rate_limit.h"
#include "gateway/mtls/policy.h"
#include "gateway/query/policy.h"

namespace sluice::gateway {
namespace {

// One function for each kind of policy, which gives it the parts that it needs.

std::unique_ptr<Policy> make(const jwt::Options& options, PolicyParts& parts) {
  return std::make_unique<jwt::JwtPolicy>(options, std::move(parts.keys), parts.reactor, std::move(parts.source),
                                          std::move(parts.table), std::move(parts.revocations), std::move(parts.ended));
}

std::unique_ptr<Policy> make(const cors::Options& options, PolicyParts&) {
  return std::make_unique<cors::CorsPolicy>(options);
}

std::unique_ptr<Policy> make(const ip::Options& options, PolicyParts&) {
  return std::make_unique<ip::IpPolicy>(options);
}

std::unique_ptr<Policy> make(const mtls::Options& options, PolicyParts&) {
  return std::make_unique<mtls::MtlsPolicy>(options);
}

std::unique_ptr<Policy> make(const apikey::Options& options, PolicyParts& parts) {
  return std::make_unique<apikey::ApiKeyPolicy>(options, std::move(parts.table));
}

std::unique_ptr<Policy> make(const basic::Options& options, PolicyParts& parts) {
  return std::make_unique<basic::BasicPolicy>(options, parts.reactor, parts.mailbox, parts.threads);
}

std::unique_ptr<Policy> make(const authrequest::Options& options, PolicyParts& parts) {
  return std::make_unique<authrequest::AuthRequestPolicy>(options, std::move(parts.upstream),
                                                          std::move(parts.shared_upstream));
}

std::unique_ptr<Policy> make(const headers::Options& options, PolicyParts&) {
  return std::make_unique<headers::HeadersPolicy>(options);
}

std::unique_ptr<Policy> make(const query::Options& options, PolicyParts&) {
  return std::make_unique<query::QueryPolicy>(options);
}

std::unique_ptr<Policy> make(const limits::RateLimitOptions& options, PolicyParts& parts) {
  return std::make_unique<limits::RateLimitPolicy>(options, parts.name, parts.limit, parts.reactor, parts.mesh);
}

std::unique_ptr<Policy> make(const limits::ConcurrencyOptions& options, PolicyParts& parts) {
  return std::make_unique<limits::ConcurrencyPolicy>(options, parts.limit, parts.reactor, parts.mesh, parts.dry_run);
}

std::unique_ptr<Policy> make(const limits::BodyLimitOptions& options, PolicyParts&) {
  return std::make_unique<limits::BodyLimitPolicy>(options);
}

}  // namespace

std::unique_ptr<Policy> make_policy(const PolicyOptions& options, PolicyParts parts) {
  std::unique_ptr<Policy> made;
  parts.dry_run = options.dry_run.value;
  options.visit([&](const auto& of_kind) { made = make(of_kind, parts); });
  if (options.dry_run.value) made = std::make_unique<DryRun>(std::move(made));
  return made;
}

}  // namespace sluice::gateway
