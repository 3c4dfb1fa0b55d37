#pragma once

#include <cstdint>
#include <expected>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/jwt/keys.h"
#include "gateway/jwt/token.h"
#include "http/claims.h"

namespace sluice::gateway::jwt {

// What a token must say to be let in.
struct Requirements {
  std::vector<std::string> issuers = {};    // empty: anybody
  std::vector<std::string> audiences = {};  // empty: a token that names any is for somebody else (RFC 7519, 4.1.3)
  double leeway_s = 0;
  bool require_exp = true;
};

// A token that has been verified. Seconds of the Unix epoch, the leeway in them already.
struct Verified {
  std::shared_ptr<const http::Claims> claims;
  double begins_s = -std::numeric_limits<double>::infinity();
  double ends_s = std::numeric_limits<double>::infinity();
};

// Nothing: it holds at that time.
[[nodiscard]] inline std::optional<Refusal> refusal_at(const Verified& token, double now_s) {
  if (now_s >= token.ends_s) return Refusal::expired;
  if (now_s < token.begins_s) return Refusal::not_yet;
  return std::nullopt;
}

// One core's: verifies tokens (RFC 7519, 7.2, of JWS alone).
class Verifier {
 public:
  Verifier(const KeySet& keys, Requirements requirements);

  // Another key set from now on.
  void set_keys(const KeySet& keys);

  // In this order: form, header, key, signature, and only then the payload, so that nobody without a key reaches its
  // parser or learns what is asked of it.
  [[nodiscard]] std::expected<Verified, Refusal> verify(std::string_view token, double now_s);

 private:
  [[nodiscard]] std::expected<SignatureCheck*, Refusal> find_key(const Header& header);
  [[nodiscard]] std::expected<Verified, Refusal> judge(std::shared_ptr<const http::Claims> claims, double now_s) const;

  Requirements requirements_;
  std::vector<SignatureCheck> checks_;
  HeaderReader headers_;
  std::string signature_;  // decoded; kept for its memory, as is
  std::string payload_;
};

}  // namespace sluice::gateway::jwt
