#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/declare.h"
#include "gateway/jwt/token.h"
#include "gateway/origins.h"
#include "gateway/place.h"
#include "gateway/policy_kind.h"
#include "http/claims.h"

namespace sluice::gateway::jwt {

// An entry of `require`: words that a claim must contain.
struct RequireOptions {
  Located<std::string> claim;
  std::vector<Located<std::string>> any;
  std::vector<Located<std::string>> all;
  Position position;

  // Whether the words are scopes (RFC 6749, 3.3), which clients request from the issuer.
  [[nodiscard]] bool is_scope() const { return http::is_scope(claim.value); }
  static std::string check_word(std::string_view text) { return text.empty() ? "must not be empty" : ""; }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = RequireOptions;
    v.field("claim", &Self::claim,
            "The claim, or its path within objects: `scope`, `realm_access.roles`. The claim must be an array of "
            "strings, or a string of words separated by spaces.",
            {.required = true});
    v.field("any", &Self::any, "The claim must contain at least one of these words.", {.max = 64, .check = check_word});
    v.field("all", &Self::all, "The claim must contain all of these words.", {.max = 64, .check = check_word});
    v.position(&Self::position);
  }
};

// [policy.NAME] with type = "jwt"
struct Options {
  static constexpr PolicyKind kind{
      .name = "jwt",
      .about =
          "A request must carry a signed token, as `Authorization: Bearer ...` or where `from` says. Without a valid "
          "one it is answered 401.",
      .gives_claims = true,
      .instead = "a policy may have several keys (in \"jwks\"), issuers and audiences"};

  // Where the keys come from: exactly one of these five is set. After loading, paths are relative to the working
  // directory.
  std::optional<Located<std::string>> secret;
  std::optional<Located<std::string>> secret_file;
  std::optional<Located<std::string>> public_key;
  std::optional<Located<std::string>> jwks;
  std::optional<Located<std::string>> jwks_url;
  Located<Duration> jwks_every{5min};
  Located<Duration> jwks_timeout{5s};
  Located<Duration> stale_after{};
  Located<std::string> jwks_ca;
  std::vector<Algorithm> algorithms;
  OneOrMore<std::string> issuer;
  OneOrMore<std::string> audience;
  std::vector<RequireOptions> require;
  Duration leeway = 30s;
  bool require_exp = true;
  bool optional = false;
  std::vector<Located<std::string>> from = {{"header.authorization"}};
  std::vector<Located<std::string>> origins;
  bool pass = false;
  std::optional<Located<std::string>> revoked;
  std::optional<Located<std::string>> revocations;
  Located<std::string> realm{"sluice"};
  ByteSize token_limit = 8_KiB;
  std::uint32_t cache_tokens = 4096;
  ByteSize cache_memory = 16_MiB;
  Position position;
  // Set by [login], if it names the policy: the keys and the tokens are its own.
  bool by_login = false;
  std::string refresh_cookie;  // the name of a cookie that no upstream gets; may be empty

  // The options without the keys that load_keys() takes.
  [[nodiscard]] Options without_keys() const {
    Options rest = *this;
    rest.secret = rest.secret_file = rest.public_key = rest.jwks = std::nullopt;
    return rest;
  }

  static std::string check_name(std::string_view text) { return text.empty() ? "must not be empty" : ""; }
  static std::string check_url(std::string_view text);
  static std::string check_place(std::string_view text) {
    return Place::parse(text) ? "" : "must be \"header.NAME\", \"cookie.NAME\" or \"query.NAME\"";
  }
  static std::string check_realm(std::string_view text) {
    for (const char c : text) {
      if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
        return "must be printable ASCII without quotes and backslashes";
    }
    return text.empty() ? "must not be empty" : "";
  }

  // The parsed `from`.
  [[nodiscard]] std::vector<Place> places() const {
    std::vector<Place> parsed;
    for (const auto& one : from) {
      if (auto place = Place::parse(one.value)) parsed.push_back(std::move(*place));
    }
    return parsed;
  }

  // The header fields that may hold the token.
  [[nodiscard]] std::vector<std::string> read_fields() const {
    std::vector<std::string> names;
    for (Place& place : places()) {
      if (place.in == Place::In::header) names.push_back(std::move(place.name));
    }
    return names;
  }

  // Whether some of the tokens are removed from the requests that pass.
  [[nodiscard]] bool takes_off() const {
    return !pass && std::ranges::any_of(places(), [](const Place& place) {
      return !place.is_authorization() && place.in != Place::In::query;
    });
  }

  // Checks the combination of the keys.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("secret", &Self::secret,
            "The secret for tokens with HS256, at least 32 bytes: `\"${JWT_SECRET}\"`. HS384 needs 48 bytes, HS512 "
            "64. Exactly one of `secret`, `secret_file`, `public_key`, `jwks` and `jwks_url` is required, but none if "
            "[login] names the policy.",
            {.check = check_name});
    v.field("secret_file", &Self::secret_file,
            "A file with such a secret; a line break at its end is not part of it. Relative paths start at the "
            "folder of the configuration file. Sluice reads the key files again on SIGHUP and when they change.",
            {.check = check_name});
    v.field("public_key", &Self::public_key,
            "A PEM file with a public key: RSA (at least 2048 bits) for RS256; EC on P-256, P-384 or P-521 for "
            "ES256, ES384 or ES512; Ed25519 for EdDSA.",
            {.check = check_name});
    v.field("jwks", &Self::jwks,
            "A JSON file with a set of keys (RFC 7517). The token's `kid` chooses the key. A key with `alg` is used "
            "for that algorithm only.",
            {.check = check_name});
    v.field("jwks_url", &Self::jwks_url,
            "The URL at which the issuer publishes its set of keys: "
            "`\"https://issuer.example/.well-known/jwks.json\"`. Until it has been fetched, requests with a token "
            "are answered 503 and `/readyz` reports not ready.",
            {.check = check_url});
    v.field("jwks_every", &Self::jwks_every,
            "How often the set is fetched. A token with an unknown key also causes a fetch, at most once in 30 "
            "seconds.",
            {.min = 1s, .max = 24h});
    v.field("jwks_timeout", &Self::jwks_timeout,
            "How long a fetch may take, and how long a request with an unknown key waits for it.",
            {.min = 100ms, .max = 1min});
    v.field("stale_after", &Self::stale_after,
            "How long the last set that was fetched is used after fetches began to fail. After that there are no keys, "
            "and requests with a token are answered 503, until a fetch succeeds. `0`: it is used without a limit.",
            {.max = 365 * 24h});
    v.field("jwks_ca", &Self::jwks_ca,
            "A PEM file with the authorities that may sign the certificate of the server at `jwks_url`. Without it, "
            "those that the system trusts.");
    v.field("algorithms", &Self::algorithms,
            "The accepted algorithms. Each key is used for those of them that fit its type. Without it, each key is "
            "used for one algorithm: HS256, RS256, EdDSA, or the one of its curve. The token's own `alg` never "
            "chooses.");
    v.field("issuer", &Self::issuer,
            "The accepted issuers: the token's `iss` must be one of them. Without it, any issuer is accepted.",
            {.check = check_name});
    v.field("audience", &Self::audience,
            "The accepted audiences: the token's `aud` must be, or contain, one of them. Without it, a token that "
            "has an `aud` is refused (RFC 7519, 4.1.3).",
            {.check = check_name});
    v.field("require", &Self::require,
            "Words, such as scopes or roles, that the token's claims must contain: `[{ claim = \"scope\", any = "
            "[\"films:read\"] }]`. A request whose token lacks them is answered 403.",
            {.max = 16});
    v.field("leeway", &Self::leeway, "How far the issuer's clock may differ, when `exp` and `nbf` are checked.",
            {.min = 0s, .max = 1h});
    v.field("require_exp", &Self::require_exp, "Whether a token without `exp`, which would never expire, is refused.");
    v.field("optional", &Self::optional,
            "Whether a request without a token passes, without claims. A request with an invalid token is refused in "
            "any case.");
    v.field("from", &Self::from,
            "Where a request may carry the token: `header.authorization` (as `Bearer TOKEN`), `header.NAME` (the token "
            "alone), `cookie.NAME` or `query.NAME`. A query parameter counts only for WebSockets, and for GET requests "
            "that accept `text/event-stream`. A request with different tokens is answered 400.",
            {.max = 16, .check = check_place});
    v.field("origins", &Self::origins,
            "The origins, besides the request's own, whose pages may use a token in a cookie to open WebSockets, and "
            "for other methods than GET, HEAD and OPTIONS: `\"https://app.example\"`, or `\"https://*.app.example\"` "
            "for every host below that. From other origins such a request is answered 403.",
            {.check = check_origin});
    v.field("pass", &Self::pass,
            "Whether a token in a cookie, or in another header field than `Authorization`, is passed on with the "
            "request, for example to an upstream. `Authorization` always is, and a query parameter never.");
    v.field("revoked", &Self::revoked,
            "The name of the [[resident]] table with the revoked tokens. Its `key` is the column with their `jti`. A "
            "token in it is refused, and so is a token without `jti`.",
            {.check = check_name});
    v.field("revocations", &Self::revocations,
            "A file in which Sluice keeps the tokens that are revoked with `POST /jwt/revoke` on the admin listener. A "
            "token without `jti` and without `sub` cannot be revoked in this way. Sluice creates the file if it does "
            "not exist. Only one process may use it.",
            {.check = check_name});
    v.field("realm", &Self::realm, "The realm in the `WWW-Authenticate` field of a 401.", {.check = check_realm});
    v.field("token_limit", &Self::token_limit, "The longest token.", {.min = 256_B, .max = 60_KiB});
    v.field("cache_tokens", &Self::cache_tokens,
            "How many verified tokens each core remembers, so that their signature is not verified again. Each is "
            "remembered until it expires. `0`: none.",
            {.max = 1'000'000});
    v.field("cache_memory", &Self::cache_memory,
            "How much memory the remembered tokens and their claims may take on each core.", {.max = 4_GiB});
    v.position(&Self::position);
  }
};

}  // namespace sluice::gateway::jwt
