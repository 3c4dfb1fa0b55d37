#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/declare.h"

namespace sluice::gateway::jwt {

// [policy.NAME] with type = "jwt"
struct Options {
  // The keys: exactly one of these four, paths usable from the working directory once loaded.
  std::optional<Located<std::string>> secret;
  std::optional<Located<std::string>> secret_file;
  std::optional<Located<std::string>> public_key;
  std::optional<Located<std::string>> jwks;
  OneOrMore<std::string> issuer;
  OneOrMore<std::string> audience;
  Duration leeway = 30s;
  bool require_exp = true;
  bool optional = false;
  Located<std::string> realm{"sluice"};
  ByteSize token_limit = 8_KiB;
  std::uint32_t cache_tokens = 4096;
  ByteSize cache_memory = 16_MiB;
  Position position;

  static std::string check_name(std::string_view text) { return text.empty() ? "must not be empty" : ""; }
  static std::string check_realm(std::string_view text) {
    for (const char c : text) {
      if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
        return "must be printable ASCII without quotes and backslashes";
    }
    return text.empty() ? "must not be empty" : "";
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("secret", &Self::secret,
            "The key of tokens with HS256, 32 bytes at least: `\"${JWT_SECRET}\"`. One of this key and the next three "
            "must be there, and it alone decides the algorithm, not the token.",
            {.check = check_name});
    v.field(
        "secret_file", &Self::secret_file,
        "A file with that key; a line break at its end is not part of it. Relative paths are from the folder of the "
        "configuration file. SIGHUP reads the files of keys again, and so does a change of theirs.",
        {.check = check_name});
    v.field("public_key", &Self::public_key,
            "A PEM file with the public key of tokens with RS256 (RSA, 2048 bits at least) or ES256 (EC, P-256).",
            {.check = check_name});
    v.field("jwks", &Self::jwks,
            "A JSON file with several keys (RFC 7517), chosen by the token's `kid`: `oct` for HS256, `RSA` for RS256, "
            "`EC` with `P-256` for ES256.",
            {.check = check_name});
    v.field("issuer", &Self::issuer, "Who may have issued a token: one of these is its `iss`. Without: anybody.",
            {.check = check_name});
    v.field("audience", &Self::audience,
            "For whom a token may be: one of these is its `aud`, or among it. Without, a token with an `aud` is "
            "refused (RFC 7519, 4.1.3).",
            {.check = check_name});
    v.field("leeway", &Self::leeway, "By how much the issuer's clock may be off, for `exp` and `nbf`.",
            {.min = 0s, .max = 1h});
    v.field("require_exp", &Self::require_exp, "A token without `exp`, which never expires, is refused.");
    v.field(
        "optional", &Self::optional,
        "A request without `Authorization` goes on, without claims. One with a token that is not valid never does.");
    v.field("realm", &Self::realm, "What `WWW-Authenticate` of a 401 calls what is protected.", {.check = check_realm});
    v.field("token_limit", &Self::token_limit, "The longest token.", {.min = 256_B, .max = 60_KiB});
    v.field("cache_tokens", &Self::cache_tokens,
            "Verified tokens that each core remembers until they expire, so that their signature is not verified "
            "again. `0`: none.",
            {.max = 1'000'000});
    v.field("cache_memory", &Self::cache_memory, "What they and their claims may take of each core's memory.",
            {.max = 4_GiB});
    v.position(&Self::position);
  }
};

}  // namespace sluice::gateway::jwt
