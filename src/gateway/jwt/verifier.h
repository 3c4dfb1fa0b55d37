#pragma once

#include <cstdint>
#include <expected>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/jwt/keys.h"
#include "gateway/jwt/options.h"
#include "gateway/jwt/token.h"
#include "http/claims.h"

namespace sluice::gateway::jwt {

// The requirements that a token must meet.
struct Requirements {
  std::vector<std::string> issuers = {};  // empty: any issuer
  // If empty, a token with an audience is refused, because it is meant for another service (RFC 7519, 4.1.3).
  std::vector<std::string> audiences = {};
  std::vector<RequireOptions> claims = {};
  double leeway_s = 0;
  bool require_exp = true;
  bool require_id = false;  // "jti"
};

// A verified token. Times are in seconds of the Unix epoch and include the leeway.
struct Verified {
  std::shared_ptr<const http::Claims> claims;
  double begins_s = -std::numeric_limits<double>::infinity();
  double ends_s = std::numeric_limits<double>::infinity();
};

// Nothing if the token is valid at that time.
[[nodiscard]] inline std::optional<Refusal> refusal_at(const Verified& token, double now_s) {
  if (now_s >= token.ends_s) return Refusal::expired;
  if (now_s < token.begins_s) return Refusal::not_yet;
  return std::nullopt;
}

// Verifies tokens (RFC 7519, 7.2; only JWS). Each core has its own.
class Verifier {
 public:
  Verifier(const KeySet& keys, Requirements requirements);

  // Uses another key set from now on.
  void set_keys(const KeySet& keys);

  // Checks the structure, the header, the key and the signature, and only then the payload. So a client without a key
  // cannot reach the parser of the payload and does not learn the requirements.
  [[nodiscard]] std::expected<Verified, Refusal> verify(std::string_view token, double now_s);

  // Why the token would be refused with 401 even if its key were known: its form, "exp", "nbf", "iss" or "aud". Reads
  // the payload without verifying it, so only a refusal may follow from it.
  [[nodiscard]] std::optional<Refusal> refusal_with_any_key(std::string_view token, double now_s);

 private:
  [[nodiscard]] std::expected<SignatureCheck*, Refusal> find_key(const Header& header);
  // Checks all requirements but those of `require`.
  [[nodiscard]] std::expected<Verified, Refusal> judge(std::shared_ptr<const http::Claims> claims, double now_s) const;

  Requirements requirements_;
  std::vector<SignatureCheck> checks_;
  HeaderReader headers_;
  std::string signature_;  // decoded; a member so that its memory is reused, like payload_
  std::string payload_;
};

}  // namespace sluice::gateway::jwt
