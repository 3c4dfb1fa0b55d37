#include "gateway/jwt/policy.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gateway/origins.h"
#include "http/accept.h"
#include "http/identity.h"

namespace sluice::gateway::jwt {
namespace {

// A description for the client: says what is wrong with the request, and nothing about the keys. It must not contain
// quotes or backslashes.
std::string_view description_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::missing:
      return "A bearer token is needed.";
    case Refusal::scheme:
      return "The Authorization field must be of the scheme Bearer.";
    case Refusal::repeated:
      return "The Authorization field comes more than once.";
    case Refusal::different:
      return "The request has different tokens.";
    case Refusal::origin:
      return "The token is in a cookie, so the request needs an Origin that is allowed here.";
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
    case Refusal::nameless:
      return "The token has no id.";
    case Refusal::expired:
      return "The token has expired.";
    case Refusal::not_yet:
      return "The token is not valid yet.";
    case Refusal::scope:
      return "The token's scope does not suffice.";
    case Refusal::claim:
      return "The token's claims do not suffice.";
    case Refusal::no_keys:
      return "The keys to verify the token with are not there yet.";
    case Refusal::revoked:
      return "The token has been revoked.";
    case Refusal::away:
      return "Tokens cannot be verified now.";
  }
  return {};
}

// RFC 6750, 3.1: there is no error code for a request without a token.
std::string_view error_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::missing:
    case Refusal::scheme:
      return {};
    case Refusal::repeated:
    case Refusal::different:
      return "invalid_request";
    case Refusal::scope:
    case Refusal::claim:
      return "insufficient_scope";
    default:
      return "invalid_token";
  }
}

int status_of(Refusal refusal) {
  if (refusal == Refusal::repeated || refusal == Refusal::different) return 400;
  if (refusal == Refusal::no_keys || refusal == Refusal::away) return 503;
  return refusal == Refusal::scope || refusal == Refusal::claim || refusal == Refusal::origin ? 403 : 401;
}

std::string challenge(const Options& options, Refusal refusal) {
  std::string text = "Bearer realm=\"" + options.realm.value + "\"";
  if (const auto error = error_of(refusal); !error.empty()) {
    text +=
        ", error=\"" + std::string(error) + "\", error_description=\"" + std::string(description_of(refusal)) + "\"";
  }
  if (refusal == Refusal::scope) {  // RFC 6750, 3: the scope that the client should request from the issuer
    std::string scope;
    for (const RequireOptions& required : options.require) {
      if (!required.is_scope()) continue;
      for (const auto* words : {&required.any, &required.all}) {
        for (const auto& word : *words) scope += (scope.empty() ? "" : " ") + word.value;
      }
    }
    text += ", scope=\"" + scope + "\"";
  }
  return text;
}

Requirements requirements(const Options& options) {
  return {.issuers = options.issuer.items,
          .audiences = options.audience.items,
          .claims = options.require,
          .leeway_s = std::chrono::duration<double>(options.leeway).count(),
          .require_exp = options.require_exp,
          .require_id = options.revoked.has_value()};
}

// The token after "Bearer" and spaces. Nothing for another scheme (RFC 9110, 11.1: case-insensitive).
std::optional<std::string_view> bearer_token(std::string_view authorization) {
  constexpr std::string_view scheme = "Bearer";
  if (!http::same_name(authorization.substr(0, scheme.size()), scheme)) return std::nullopt;
  authorization.remove_prefix(scheme.size());
  if (authorization.empty()) return authorization;
  if (!authorization.starts_with(' ')) return std::nullopt;
  while (authorization.starts_with(' ')) authorization.remove_prefix(1);
  return authorization;
}

std::expected<std::string_view, Refusal> authorization_token(const http::Request& request) {
  const http::Field* authorization = nullptr;
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "authorization")) continue;
    // Another server may have checked a different one of the fields (RFC 9110, 5.3: the field is not a list).
    if (authorization != nullptr) return std::unexpected(Refusal::repeated);
    authorization = &field;
  }
  if (authorization == nullptr) return std::unexpected(Refusal::missing);
  const auto token = bearer_token(authorization->value);
  if (!token) return std::unexpected(Refusal::scheme);
  return *token;
}

// Browsers cannot set header fields for a WebSocket or an EventSource, so only these may have the token in the query
// string.
bool may_have_query_token(const http::Request& request) {
  if (opens_websocket(request)) return true;
  if (request.method != http::Method::get) return false;
  const bool is_named = std::ranges::any_of(request.fields, [](const http::Field& field) {
    return http::same_name(field.name, "accept") && http::lists_token(field.value, "text/event-stream");
  });
  return is_named && http::quality_of(request.fields, "text", "event-stream") != 0;
}

}  // namespace

JwtPolicy::JwtPolicy(const Options& options, std::shared_ptr<const CurrentKeys> keys, const core::Reactor& reactor,
                     std::shared_ptr<KeySource> source, std::unique_ptr<KeyTable> revoked,
                     std::shared_ptr<const Revocations> revocations, std::shared_ptr<const Revocations> ended)
    : reactor_(reactor),
      optional_(options.optional),
      token_limit_(options.token_limit),
      origins_(options.origins),
      pass_(options.pass),
      hidden_(options.refresh_cookie.empty()
                  ? std::nullopt
                  : std::optional(Place{.in = Place::In::cookie, .name = options.refresh_cookie})),
      source_(std::move(source)),
      revoked_(revoked || revocations || ended
                   ? std::make_shared<RevokedTokens>(std::move(revoked), std::move(revocations), std::move(ended))
                   : nullptr),
      latest_(std::move(keys)),
      keys_(latest_.get()),
      verifier_(keys_ ? *keys_ : KeySet{}, requirements(options)),
      cache_(options.cache_tokens, options.cache_memory) {
  for (std::size_t i = 0; i < refusal_count; ++i) {
    challenges_[i] = challenge(options, static_cast<Refusal>(i));
  }
  for (Place& place : options.places()) sources_.push_back({.place = std::move(place), .scratch = {}});
  if (sources_.size() == 1 && sources_.front().place.is_authorization()) sources_.clear();
}

core::Async<std::optional<http::Response>> JwtPolicy::before(http::Exchange& exchange, http::Slot&) {
  const auto refusal = judge(exchange);
  if (!refusal) return Answer();
  if (!may_fetch_after(*refusal)) return Answer(refuse(*refusal));
  if (source_->is_crowded()) return Answer(refuse(Refusal::no_keys));
  return judge_after_fetch(exchange);
}

core::Task<JwtPolicy::Answer> JwtPolicy::judge_after_fetch(http::Exchange& exchange) {
  co_await source_->fetch();
  const auto refusal = judge(exchange);
  if (!refusal) co_return std::nullopt;
  co_return refuse(*refusal);
}

bool JwtPolicy::may_fetch_after(Refusal refusal) const {
  const bool may_be_new = refusal == Refusal::key || refusal == Refusal::algorithm;
  return may_be_new && source_ && source_->may_fetch();
}

std::optional<Refusal> JwtPolicy::judge(http::Exchange& exchange) {
  const Token token = sources_.empty() ? authorization_token(exchange.request) : find_token(exchange.request);
  if (token) {
    if (const auto refused = judge_token(exchange, *token)) return refused;
  } else if (token.error() == Refusal::missing && optional_) {
    ++counters_.anonymous;
    exchange.attributes.set(http::Challenge{challenges_[static_cast<std::size_t>(Refusal::missing)]});
  } else {
    return token.error();
  }
  if (!sources_.empty()) hide_tokens(exchange);
  return std::nullopt;
}

JwtPolicy::Token JwtPolicy::find_token(const http::Request& request) {
  using Count = FoundCredential::Count;
  Token found = std::unexpected(Refusal::missing);
  bool only_in_cookies = true;
  for (Source& source : sources_) {
    Token token = std::unexpected(Refusal::missing);
    if (source.place.is_authorization()) {
      token = authorization_token(request);
    } else if (source.place.in != Place::In::query || may_have_query_token(request)) {
      const FoundCredential credential = find_credential(source.place, request, source.scratch);
      if (credential.count == Count::several) return std::unexpected(Refusal::different);
      if (credential.count != Count::none) token = credential.text;
    }
    if (!token && token.error() != Refusal::missing) return token;
    if (!token) continue;
    // Another server may have checked a different one of them.
    if (found && *found != *token) return std::unexpected(Refusal::different);
    found = token;
    only_in_cookies &= source.place.in == Place::In::cookie;
  }
  if (found && only_in_cookies && !may_use_cookie(request, origins_)) return std::unexpected(Refusal::origin);
  return found;
}

void JwtPolicy::hide_tokens(http::Exchange& exchange) {
  if (hidden_) hide_credential(*hidden_, false, exchange, changed_);
  for (const auto& [place, scratch] : sources_) {
    if (!place.is_authorization()) hide_credential(place, pass_ && place.in != Place::In::query, exchange, changed_);
  }
}

std::optional<Refusal> JwtPolicy::judge_token(http::Exchange& exchange, std::string_view token) {
  if (token.size() > token_limit_) return Refusal::too_large;
  take_keys();

  const double now_s = static_cast<double>(reactor_.wall_clock_ns()) / 1e9;
  if (const Verified* known = cache_.find(token, now_s)) {
    if (const auto refused = refusal_at(*known, now_s)) return *refused;  // possible if the clock was set back
    const auto refused = let_pass(exchange, known->claims, known->ends_s);
    counters_.hits += refused ? 0 : 1;
    return refused;
  }
  if (keys_ == nullptr) return Refusal::no_keys;
  auto verified = verifier_.verify(token, now_s);
  if (!verified) {
    // A token that no key would help causes no fetch.
    if (!may_fetch_after(verified.error())) return verified.error();
    return verifier_.refusal_with_any_key(token, now_s).value_or(verified.error());
  }
  ++counters_.verifications;
  cache_.add(token, *verified);
  return let_pass(exchange, std::move(verified->claims), verified->ends_s);
}

std::optional<Refusal> JwtPolicy::let_pass(http::Exchange& exchange, std::shared_ptr<const http::Claims> claims,
                                           double ends_s) const {
  if (revoked_ != nullptr) {
    if (const auto refused = revoked_->refusal_of(*claims)) return refused;
  }
  exchange.attributes.set(http::Identity{.claims = std::move(claims), .expires_s = ends_s});
  if (revoked_ != nullptr) exchange.attributes.set(http::Revocable{revoked_});
  return std::nullopt;
}

void JwtPolicy::take_keys() {
  const auto& latest = latest_.get();
  if (latest == keys_) [[likely]]
    return;
  keys_ = latest;
  verifier_.set_keys(keys_ ? *keys_ : KeySet{});
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
  http::Response response = http::problem(status_of(why), description_of(why));
  if (response.status == 503) {
    response.fields.add_trusted("Retry-After", "1");
  } else if (why != Refusal::origin) {  // another token would not help
    response.fields.add_trusted("WWW-Authenticate", challenges_[index]);
  }
  return response;
}

}  // namespace sluice::gateway::jwt
