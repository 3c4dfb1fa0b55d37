#include "gateway/jwt/verifier.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "gateway/jwt/base64url.h"

namespace sluice::gateway::jwt {
namespace {

using http::Claim;

bool is_among(const Claim& claim, const std::vector<std::string>& wanted) {
  return claim.kind == Claim::Kind::string && std::ranges::find(wanted, claim.text) != wanted.end();
}

// RFC 7519, 2: NumericDate, seconds that may have a fraction. False: it is there and is none.
bool read_date(const http::Claims& claims, std::string_view name, std::optional<double>& date) {
  const Claim* claim = claims.find(name);
  if (claim == nullptr) return true;
  if (claim->kind != Claim::Kind::number) return false;
  double seconds = 0;
  const auto [end, error] = std::from_chars(claim->text.data(), claim->text.data() + claim->text.size(), seconds);
  if (error != std::errc() || end != claim->text.data() + claim->text.size()) return false;
  date = seconds;
  return true;
}

}  // namespace

Verifier::Verifier(const KeySet& keys, Requirements requirements) : requirements_(std::move(requirements)) {
  set_keys(keys);
}

void Verifier::set_keys(const KeySet& keys) {
  checks_.clear();
  for (const auto& key : keys.keys) checks_.emplace_back(key);
}

// By "kid" and algorithm. A key without an id is for every token of its algorithm; a token without one takes the only
// key of its algorithm, and none where there are several.
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
  return judge(http::Claims::parse(payload_), now_s);
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
    const bool is_ours = audience != nullptr && (meant(*audience) || std::ranges::any_of(audience->items, meant));
    if (!is_ours) return std::unexpected(Refusal::audience);
  }
  verified.claims = std::move(claims);
  return verified;
}

}  // namespace sluice::gateway::jwt
