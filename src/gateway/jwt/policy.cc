#include "gateway/jwt/policy.h"

#include <chrono>
#include <utility>

namespace sluice::gateway::jwt {
namespace {

// For the client: which of its requests' faults it is, and nothing of the keys. No quotes, no backslashes.
std::string_view description_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::missing:
      return "A bearer token is needed.";
    case Refusal::scheme:
      return "The Authorization field must be of the scheme Bearer.";
    case Refusal::repeated:
      return "The Authorization field comes more than once.";
    case Refusal::too_large:
      return "The token is too long.";
    case Refusal::malformed:
      return "The token is malformed.";
    case Refusal::unsupported:
      return "The token needs an extension that the server does not have.";
    case Refusal::algorithm:
      return "The token's algorithm is not accepted.";
    case Refusal::key:
      return "The token's key is not known.";
    case Refusal::signature:
      return "The token's signature is wrong.";
    case Refusal::issuer:
      return "The token is of another issuer.";
    case Refusal::audience:
      return "The token is for another audience.";
    case Refusal::endless:
      return "The token never expires.";
    case Refusal::expired:
      return "The token has expired.";
    case Refusal::not_yet:
      return "The token is not valid yet.";
  }
  return {};
}

// RFC 6750, 3.1: a request that has no token is told no error.
std::string_view error_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::missing:
    case Refusal::scheme:
      return {};
    case Refusal::repeated:
      return "invalid_request";
    default:
      return "invalid_token";
  }
}

std::string challenge(const std::string& realm, Refusal refusal) {
  std::string text = "Bearer realm=\"" + realm + "\"";
  if (const auto error = error_of(refusal); !error.empty()) {
    text +=
        ", error=\"" + std::string(error) + "\", error_description=\"" + std::string(description_of(refusal)) + "\"";
  }
  return text;
}

Requirements requirements(const Options& options) {
  return {.issuers = options.issuer.items,
          .audiences = options.audience.items,
          .leeway_s = std::chrono::duration<double>(options.leeway).count(),
          .require_exp = options.require_exp};
}

// What follows "Bearer" and its spaces; nothing: another scheme (RFC 9110, 11.1: compared without case).
std::optional<std::string_view> bearer_token(std::string_view authorization) {
  constexpr std::string_view scheme = "Bearer";
  if (!http::same_name(authorization.substr(0, scheme.size()), scheme)) return std::nullopt;
  authorization.remove_prefix(scheme.size());
  if (authorization.empty()) return authorization;
  if (!authorization.starts_with(' ')) return std::nullopt;
  while (authorization.starts_with(' ')) authorization.remove_prefix(1);
  return authorization;
}

}  // namespace

JwtPolicy::JwtPolicy(const Options& options, std::shared_ptr<const KeySet> keys, const core::Reactor& reactor)
    : Policy(Parts::before),
      reactor_(reactor),
      optional_(options.optional),
      token_limit_(options.token_limit),
      keys_(std::move(keys)),
      verifier_(*keys_, requirements(options)),
      cache_(options.cache_tokens, options.cache_memory) {
  for (std::size_t i = 0; i < refusal_count; ++i) {
    challenges_[i] = challenge(options.realm.value, static_cast<Refusal>(i));
  }
}

std::optional<http::Response> JwtPolicy::judge(http::Request& request) {
  const http::Field* authorization = nullptr;
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "authorization")) continue;
    // One of them may be what another server looked at (RFC 9110, 5.3: it is no list).
    if (authorization != nullptr) return refuse(Refusal::repeated);
    authorization = &field;
  }
  if (authorization == nullptr) {
    if (!optional_) return refuse(Refusal::missing);
    ++counters_.anonymous;
    return std::nullopt;
  }
  const auto token = bearer_token(authorization->value);
  if (!token) return refuse(Refusal::scheme);
  if (token->size() > token_limit_) return refuse(Refusal::too_large);

  const double now_s = static_cast<double>(reactor_.wall_clock_ns()) / 1e9;
  if (const Verified* known = cache_.find(*token, now_s)) {
    if (const auto refused = refusal_at(*known, now_s)) return refuse(*refused);  // the clock was set back
    ++counters_.hits;
    request.findings.claims = known->claims;
    request.findings.claims_end_s = known->ends_s;
    return std::nullopt;
  }
  auto verified = verifier_.verify(*token, now_s);
  if (!verified) return refuse(verified.error());
  ++counters_.verifications;
  cache_.add(*token, *verified);
  request.findings.claims = std::move(verified->claims);
  request.findings.claims_end_s = verified->ends_s;
  return std::nullopt;
}

void JwtPolicy::set_keys(std::shared_ptr<const KeySet> keys) {
  if (keys == keys_) return;
  keys_ = std::move(keys);
  verifier_.set_keys(*keys_);
  cache_.clear();
}

Counters JwtPolicy::counters() const {
  Counters counters = counters_;
  counters.cached_tokens = cache_.size();
  counters.cached_bytes = cache_.bytes();
  return counters;
}

http::Response JwtPolicy::refuse(Refusal why) {
  const auto index = static_cast<std::size_t>(why);
  ++counters_.refusals[index];
  http::Response response = http::problem(why == Refusal::repeated ? 400 : 401, description_of(why));
  response.fields.add_trusted("WWW-Authenticate", challenges_[index]);
  return response;
}

}  // namespace sluice::gateway::jwt
