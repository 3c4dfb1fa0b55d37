#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/declare.h"

namespace sluice::gateway::jwt {

// RFC 7518, 3.1, and Ed25519 of RFC 8037, 3.1.
enum class Algorithm : std::uint8_t {
  hs256,
  hs384,
  hs512,
  rs256,
  rs384,
  rs512,
  ps256,
  ps384,
  ps512,
  es256,
  es384,
  es512,
  eddsa
};
inline constexpr std::pair<std::string_view, Algorithm> algorithms[] = {
    {"HS256", Algorithm::hs256}, {"HS384", Algorithm::hs384}, {"HS512", Algorithm::hs512}, {"RS256", Algorithm::rs256},
    {"RS384", Algorithm::rs384}, {"RS512", Algorithm::rs512}, {"PS256", Algorithm::ps256}, {"PS384", Algorithm::ps384},
    {"PS512", Algorithm::ps512}, {"ES256", Algorithm::es256}, {"ES384", Algorithm::es384}, {"ES512", Algorithm::es512},
    {"EdDSA", Algorithm::eddsa}};

inline NameOf<Algorithm> names_of(Algorithm) { return {std::begin(algorithms), std::end(algorithms)}; }
[[nodiscard]] constexpr std::string_view name_of(Algorithm algorithm) {
  return algorithms[static_cast<std::size_t>(algorithm)].first;
}
[[nodiscard]] std::optional<Algorithm> parse_algorithm(std::string_view name);

// Why a request is refused.
enum class Refusal : std::uint8_t {
  missing,      // no token
  scheme,       // a scheme other than Bearer
  repeated,     // several Authorization fields
  different,    // different tokens
  origin,       // the token is in a cookie, and the page's origin is not allowed
  too_large,    // the token is longer than token_limit
  malformed,    // not a JWT: wrong structure, header or payload
  unsupported,  // the header requires an unsupported feature: "crit", "b64"
  algorithm,    // no key is for its "alg"
  key,          // no key has its "kid"
  signature,    // the signature does not match the key
  issuer,
  audience,
  endless,   // no "exp", although require_exp is set
  nameless,  // no "jti", although tokens can be revoked
  expired,
  not_yet,
  scope,    // valid, but lacks a required scope
  claim,    // valid, but lacks another required claim
  no_keys,  // no keys fetched yet, or too many requests wait for new ones
  revoked,
  away,  // the table of revoked tokens is stale
};
inline constexpr std::size_t refusal_count = 22;

// "too_large", for metrics.
[[nodiscard]] std::string_view name_of(Refusal refusal);

// The parts of a JWS in compact form (RFC 7515, 7.1), as views into it. The three parts are still base64url.
struct Parts {
  std::string_view header;
  std::string_view payload;
  std::string_view signature;
  std::string_view signing_input;  // header and payload with the dot between them
};
// Nothing if there are not three parts, or if one is empty.
[[nodiscard]] std::optional<Parts> split(std::string_view token);

// A token's header. It is not verified yet and only selects the key to try.
struct Header {
  Algorithm algorithm{};
  std::optional<std::string> key_id;
};

// Reads headers. Reuses its buffers.
class HeaderReader {
 public:
  HeaderReader();
  ~HeaderReader();
  // `encoded`: base64url. Unknown members are ignored (RFC 7515, 4) unless "crit" names them. An unsupported algorithm,
  // such as "none", is Refusal::algorithm.
  [[nodiscard]] std::expected<Header, Refusal> read(std::string_view encoded);

 private:
  struct Json;
  std::unique_ptr<Json> json_;
  std::string text_;
};

}  // namespace sluice::gateway::jwt
