#include "app/suite/token.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/whole_file.h"

namespace sluice::app::suite {
namespace {

namespace jwt = gateway::jwt;

constexpr std::size_t largest_key_file = 1 << 20;

std::expected<jwt::SigningKey, std::string> key_of(const jwt::Options& policy) {
  if (policy.secret) return jwt::SigningKey::parse(policy.secret->value);
  if (!policy.secret_file) return jwt::SigningKey::generate(jwt::Algorithm::hs256);
  const auto text = core::read_whole_file(policy.secret_file->value, largest_key_file);
  if (!text) return std::unexpected(text.error());
  return jwt::SigningKey::parse(*text);
}

// The first of the accepted algorithms that fits the key.
jwt::Algorithm algorithm_of(const jwt::Options& policy, const jwt::SigningKey& key) {
  for (const jwt::Algorithm algorithm : policy.algorithms) {
    if (key.check(algorithm).empty()) return algorithm;
  }
  return key.default_algorithm();
}

}  // namespace

std::expected<Tokens, std::string> Tokens::make(const Suite& suite, app::Options& options) {
  Tokens tokens;
  for (const Step& step : suite.steps) {
    const std::string& name = step.options.token_policy.value;
    if (!step.token || tokens.signers_.contains(name)) continue;
    auto& policy = options.policies[*options.find_policy(name)].value.of<jwt::Options>();
    auto key = key_of(policy);
    if (!key) return std::unexpected(fmt::format("the key of [policy.{}]: {}", name, key.error()));
    if (!policy.secret && !policy.secret_file) {
      policy = policy.without_keys();
      policy.jwks_url.reset();
      policy.algorithms.clear();
      std::string secret = key->text();
      secret.pop_back();  // a line break
      policy.secret = Located<std::string>(std::move(secret), policy.position);
    }
    const auto algorithm = algorithm_of(policy, *key);
    tokens.signers_.emplace(name, Signer{policy, std::move(*key), algorithm});
  }
  return tokens;
}

std::pair<std::string, std::string> Tokens::field(const std::string& policy, Json claims) const {
  const Signer& signer = signers_.at(policy);
  const auto add = [&](std::string_view name, Json value) {
    if (claims.find(name) == nullptr) claims.members.push_back({std::string(name), std::move(value)});
  };
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  add("exp", Json::number(std::to_string(now + 3600)));
  if (!signer.policy.issuer.items.empty()) add("iss", Json::string(signer.policy.issuer.items.front()));
  if (!signer.policy.audience.items.empty()) add("aud", Json::string(signer.policy.audience.items.front()));
  if (signer.policy.revoked) add("jti", Json::string("sluice-test"));
  const std::string token = signer.key.sign(signer.algorithm, "", print_json(claims));
  const gateway::Place place = *place_of_tokens(signer.policy);
  if (place.is_authorization()) return {"Authorization", "Bearer " + token};
  if (place.in == gateway::Place::In::cookie) return {"Cookie", place.name + "=" + token};
  return {place.name, token};
}

std::optional<gateway::Place> place_of_tokens(const jwt::Options& policy) {
  for (gateway::Place& place : policy.places()) {
    if (place.in != gateway::Place::In::query) return std::move(place);
  }
  return std::nullopt;
}

}  // namespace sluice::app::suite
