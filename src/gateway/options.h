#pragma once

#include <cstdint>

#include "base/declare.h"
#include "gateway/apikey/options.h"
#include "gateway/authrequest/options.h"
#include "gateway/basic/options.h"
#include "gateway/cors/options.h"
#include "gateway/headers/options.h"
#include "gateway/ip/options.h"
#include "gateway/jwt/options.h"
#include "gateway/limits/options.h"

namespace sluice::gateway {

enum class PolicyType : std::uint8_t {
  jwt,
  cors,
  ip,
  api_key,
  basic,
  auth_request,
  headers,
  rate_limit,
  concurrency,
  body_limit
};

inline NameOf<PolicyType> names_of(PolicyType) {
  return {{"jwt", PolicyType::jwt},
          {"cors", PolicyType::cors},
          {"ip", PolicyType::ip},
          {"api-key", PolicyType::api_key},
          {"basic", PolicyType::basic},
          {"auth-request", PolicyType::auth_request},
          {"headers", PolicyType::headers},
          {"rate-limit", PolicyType::rate_limit},
          {"concurrency", PolicyType::concurrency},
          {"body-limit", PolicyType::body_limit}};
}

// Whether policies of this type may give claims to requests that pass them.
[[nodiscard]] constexpr bool gives_claims(PolicyType type) {
  return type == PolicyType::jwt || type == PolicyType::api_key || type == PolicyType::basic;
}
// Whether policies of this type may refuse a request.
[[nodiscard]] constexpr bool is_guard(PolicyType type) {
  return type != PolicyType::cors && type != PolicyType::headers;
}
// Whether all cores count together for policies of this type.
[[nodiscard]] constexpr bool is_counted(PolicyType type) {
  return type == PolicyType::rate_limit || type == PolicyType::concurrency;
}
// Whether policies of this type limit what clients use, instead of checking who the clients are.
[[nodiscard]] constexpr bool is_limit(PolicyType type) { return is_counted(type) || type == PolicyType::body_limit; }
// Whether one route may use several policies of this type.
[[nodiscard]] constexpr bool may_repeat(PolicyType type) {
  return type == PolicyType::ip || type == PolicyType::headers || is_limit(type);
}

// [policy.NAME]
struct PolicyOptions {
  Located<PolicyType> type;
  jwt::Options jwt;
  cors::Options cors;
  ip::Options ip;
  apikey::Options api_key;
  basic::Options basic;
  authrequest::Options auth_request;
  headers::Options headers;
  limits::RateLimitOptions rate_limit;
  limits::ConcurrencyOptions concurrency;
  limits::BodyLimitOptions body_limit;

  // The options without keys. A policy that differs in its keys alone goes on with the new ones.
  [[nodiscard]] PolicyOptions without_keys() const {
    PolicyOptions rest = *this;
    rest.jwt = jwt.without_keys();
    return rest;
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = PolicyOptions;
    v.field("type", &Self::type, "The type of the policy. Each type has its own keys.", {.required = true});
    v.variant(&Self::type, PolicyType::jwt, &Self::jwt,
              "A request must carry a signed token, `Authorization: Bearer ...`. Without a valid one it is answered "
              "401.");
    v.variant(&Self::type, PolicyType::cors, &Self::cors,
              "Allows scripts of pages from other origins to call the route from a browser. This protects nothing: "
              "requests that are not from a browser always pass. The policy is applied before all others, wherever it "
              "stands in `use`.");
    v.variant(&Self::type, PolicyType::ip, &Self::ip,
              "Admits clients by their address; others are answered 403. Behind proxies, the address is the one that "
              "`trusted_proxies` of [server] determines.");
    v.variant(&Self::type, PolicyType::api_key, &Self::api_key,
              "A request must carry a known key. Without one it is answered 401.");
    v.variant(&Self::type, PolicyType::basic, &Self::basic,
              "A request must carry a user's name and password, `Authorization: Basic ...`. Without valid ones it is "
              "answered 401, and browsers then ask the user for them.");
    v.variant(
        &Self::type, PolicyType::auth_request, &Self::auth_request,
        "Another server decides about each request. Sluice sends it a GET with the request's header. "
        "`X-Forwarded-Method` contains the method, `X-Forwarded-Uri` the normalised path and the query. If the server "
        "answers 2xx, the request passes. If it answers 3xx, 401, 403 or 429, the client gets this answer. In any "
        "other case the client gets 502, 503 or 504. `Set-Cookie` of a 2xx answer is added to the client's answer.");
    v.variant(&Self::type, PolicyType::headers, &Self::headers,
              "Sets, adds and removes header fields of requests and of their answers. It never refuses a request.");
    v.variant(&Self::type, PolicyType::rate_limit, &Self::rate_limit,
              "Requests above a rate are answered 429 with `Retry-After`.");
    v.variant(&Self::type, PolicyType::concurrency, &Self::concurrency,
              "Limits how many requests are in progress at the same time. Further ones wait, or are answered 503 with "
              "`Retry-After`.");
    v.variant(&Self::type, PolicyType::body_limit, &Self::body_limit, "Requests with a longer body are answered 413.");
  }
};

}  // namespace sluice::gateway
