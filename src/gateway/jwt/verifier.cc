#include "gateway/jwt/verifier.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/base64url.h"
#include "gateway/jwt/date.h"

namespace sluice::gateway::jwt {
namespace {

using http::Claim;

bool is_among(const Claim& claim, const std::vector<std::string>& wanted) {
  return claim.kind == Claim::Kind::string && std::ranges::find(wanted, claim.text) != wanted.end();
}

// Searches an array of strings, or the words of one string.
bool contains_word(const Claim& claim, std::string_view word) {
  if (claim.kind == Claim::Kind::string) {
    return std::ranges::any_of(std::views::split(claim.text, ' '),
                               [&](const auto& part) { return std::string_view(part.begin(), part.end()) == word; });
  }
  return std::ranges::any_of(claim.items,
                             [&](const Claim& item) { return item.kind == Claim::Kind::string && item.text == word; });
}

bool is_met(const RequireOptions& required, const http::Claims& claims) {
  const Claim* const claim = claims.find(required.claim.value);
  if (claim == nullptr) return false;
  const auto has = [&](const std::string& word) { return contains_word(*claim, word); };
  return (required.any.empty() || std::ranges::any_of(required.any, has)) && std::ranges::all_of(required.all, has);
}

}  // namespace

Verifier::Verifier(const KeySet& keys, Requirements requirements) : requirements_(std::move(requirements)) {
  set_keys(keys);
}

void Verifier::set_keys(const KeySet& keys) {
  checks_.clear();
  for (const auto& key : keys.keys) checks_.emplace_back(key);
}

// Finds a key by "kid" and algorithm. A key without an id matches every token with its algorithm. A token without "kid"
// matches if only one key has its algorithm.
std::expected<SignatureCheck*, Refusal> Verifier::find_key(const Header& header) {
  SignatureCheck* nameless = nullptr;
  SignatureCheck* any = nullptr;
  std::size_t count = 0;
  for (SignatureCheck& check : checks_) {
    if (check.key().algorithm() != header.algorithm) continue;
    ++count;
    any = &check;
    const auto& id = check.key().id();
    if (id && header.key_id && *id == *header.key_id) return &check;
    if (!id) nameless = &check;
  }
  if (count == 0) return std::unexpected(Refusal::algorithm);
  if (nameless != nullptr) return nameless;
  if (!header.key_id && count == 1) return any;
  return std::unexpected(Refusal::key);
}

std::expected<Verified, Refusal> Verifier::verify(std::string_view token, double now_s) {
  const auto parts = split(token);
  if (!parts) return std::unexpected(Refusal::malformed);
  const auto header = headers_.read(parts->header);
  if (!header) return std::unexpected(header.error());
  const auto check = find_key(*header);
  if (!check) return std::unexpected(check.error());
  if (!decode_base64url(parts->signature, signature_) || !decode_base64url(parts->payload, payload_)) {
    return std::unexpected(Refusal::malformed);
  }
  if (!(*check)->verify(parts->signing_input, signature_)) return std::unexpected(Refusal::signature);
  auto verified = judge(http::Claims::parse(payload_), now_s);
  if (!verified) return verified;
  for (const RequireOptions& required : requirements_.claims) {
    if (!is_met(required, *verified->claims)) {
      return std::unexpected(required.is_scope() ? Refusal::scope : Refusal::claim);
    }
  }
  return verified;
}

std::optional<Refusal> Verifier::refusal_with_any_key(std::string_view token, double now_s) {
  const auto parts = split(token);
  if (!parts || !decode_base64url(parts->signature, signature_) || !decode_base64url(parts->payload, payload_)) {
    return Refusal::malformed;
  }
  const auto judged = judge(http::Claims::parse(payload_), now_s);
  return judged ? std::nullopt : std::optional(judged.error());
}

std::expected<Verified, Refusal> Verifier::judge(std::shared_ptr<const http::Claims> claims, double now_s) const {
  if (claims == nullptr) return std::unexpected(Refusal::malformed);
  Verified verified;
  std::optional<double> expires;
  std::optional<double> not_before;
  if (!read_date(*claims, "exp", expires) || !read_date(*claims, "nbf", not_before)) {
    return std::unexpected(Refusal::malformed);
  }
  if (requirements_.require_exp && !expires) return std::unexpected(Refusal::endless);
  if (expires) verified.ends_s = *expires + requirements_.leeway_s;
  if (not_before) verified.begins_s = *not_before - requirements_.leeway_s;
  if (const auto refused = refusal_at(verified, now_s)) return std::unexpected(*refused);

  if (!requirements_.issuers.empty()) {
    const Claim* issuer = claims->find("iss");
    if (issuer == nullptr || !is_among(*issuer, requirements_.issuers)) return std::unexpected(Refusal::issuer);
  }
  const Claim* audience = claims->find("aud");
  if (audience != nullptr || !requirements_.audiences.empty()) {
    const auto meant = [&](const Claim& one) { return is_among(one, requirements_.audiences); };
    const auto is_text = [](const Claim& one) { return one.kind == Claim::Kind::string; };
    // A string, or an array of strings (RFC 7519, 4.1.3).
    const auto any_meant = [&](std::span<const Claim> items) {
      return std::ranges::all_of(items, is_text) && std::ranges::any_of(items, meant);
    };
    const bool is_ours = audience != nullptr && (meant(*audience) || any_meant(audience->items));
    if (!is_ours) return std::unexpected(Refusal::audience);
  }
  if (requirements_.require_id) {
    const Claim* id = claims->find("jti");
    if (id == nullptr || id->kind != Claim::Kind::string) return std::unexpected(Refusal::nameless);
  }
  verified.claims = std::move(claims);
  return verified;
}

}  // namespace sluice::gateway::jwt
