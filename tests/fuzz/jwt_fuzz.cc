// Tokens, their headers and payloads, key sets: any bytes are refused or have one meaning. The first byte chooses
// which.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/base64url.h"
#include "fuzzing.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/revocations.h"
#include "gateway/jwt/token.h"
#include "gateway/jwt/verifier.h"
#include "http/claims.h"

namespace {

using namespace sluice;
using namespace sluice::gateway::jwt;
using sluice::fuzz::require;

void base64url(std::string_view text) {
  std::string bytes;
  if (decode_base64url(text, bytes)) require(encode_base64url(bytes) == text, "two texts for the same bytes");
  require(decode_base64url(encode_base64url(text), bytes) && bytes == text, "bytes that do not come back");
}

void check(const http::Claim& claim) {
  require(claim.depth >= 1 && claim.depth <= http::Claims::max_depth, "too deep");
  require(claim.items.empty() || claim.kind == http::Claim::Kind::array, "items of no array");
  for (const http::Claim& item : claim.items) {
    require(item.path.empty() && item.depth == claim.depth + 1, "an item's place");
    check(item);
  }
}

void revocation(std::string_view line) {
  const auto entry = Revocation::parse(line);
  if (!entry) return;
  const auto again = Revocation::parse(entry->text());
  require(again && again->text() == entry->text() && again->id == entry->id && again->subject == entry->subject,
          "a revocation that does not come back");
}

void claims(std::string_view json) {
  revocation(json);
  const auto parsed = http::Claims::parse(json);
  if (!parsed) return;
  require(parsed->bytes() <= http::Claims::max_bytes, "more memory than is allowed");
  std::string_view before;
  for (const http::Claim& claim : parsed->all()) {
    require(&claim == &parsed->all().front() || before < claim.path, "paths that are not in order");
    require(parsed->find(claim.path) == &claim, "a claim that is not found");
    before = claim.path;
    check(claim);
  }
}

void header(std::string_view json) {
  HeaderReader reader;
  const auto first = reader.read(encode_base64url(json));
  const auto second = reader.read(encode_base64url(json));
  require(first.has_value() == second.has_value(), "a header that is read in two ways");
  if (first) require(first->key_id == second->key_id && json.size() <= 4096, "a header");
}

// The inputs hold no signature made with this secret.
void token(std::string_view text) {
  const auto bytes = [](std::string_view encoded) {
    std::string decoded;
    (void)decode_base64url(encoded, decoded);
    return decoded;
  };
  static const KeySet keys = {
      .keys = {*Key::from_secret("0123456789abcdef0123456789abcdef", "a"),
               *Key::from_ec(Key::Kind::p256, bytes("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"),
                             bytes("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")),
               *Key::from_ed25519(bytes("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"))},
      .warnings = {}};
  static Verifier verifier(keys, {.require_exp = false});
  if (const auto parts = split(text)) {
    require(parts->signing_input.size() + 1 + parts->signature.size() == text.size(), "parts");
  }
  const auto verified = verifier.verify(text, 1e9);
  // The verifier accepts the example of RFC 7515, A.3, which is a seed, and anything signed with its published key.
  if (verified) require(verified->claims != nullptr && split(text).has_value(), "a token without claims");
}

void key_set(std::string_view json) {
  const auto set = parse_jwks(json);
  if (!set) require(!set.error().empty(), "an error without words");
  if (set) require(!set->keys.empty(), "a set without keys");
  const auto published = parse_jwks(json, {}, Provenance::issuer);
  require(published || !set ||
              std::ranges::all_of(set->keys, [](const auto& key) { return key->kind() == Key::Kind::secret; }),
          "a file's set that is none when it is published");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      base64url(text);
      break;
    case 1:
      claims(text);
      break;
    case 2:
      header(text);
      break;
    case 3:
      token(text);
      break;
    case 4:
      key_set(text);
      break;
  }
  return 0;
}
