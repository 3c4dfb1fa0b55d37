#pragma once

#include <expected>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "app/options.h"
#include "app/suite/file.h"
#include "app/suite/json.h"
#include "gateway/jwt/options.h"
#include "gateway/jwt/signing_key.h"

namespace sluice::app::suite {

// Signs the tokens of the steps, as an issuer that the configuration trusts.
class Tokens {
 public:
  // Takes the secrets of the policies that steps have tokens for. Policies that have only public keys get a new secret
  // instead, in `options`. The error is a sentence.
  // Precondition: the policies of the steps are of type "jwt".
  [[nodiscard]] static std::expected<Tokens, std::string> make(const Suite& suite, app::Options& options);

  // The header field with a token of these claims. Claims that the policy needs are added: `exp`, `iss`, `aud`, `jti`.
  [[nodiscard]] std::pair<std::string, std::string> field(const std::string& policy, Json claims) const;

 private:
  struct Signer {
    gateway::jwt::Options policy;
    gateway::jwt::SigningKey key;
    gateway::jwt::Algorithm algorithm;
  };
  std::map<std::string, Signer> signers_;  // by policy
};

// The place of the tokens that steps send; nothing if the policy takes them from the query string only.
[[nodiscard]] std::optional<gateway::Place> place_of_tokens(const gateway::jwt::Options& policy);

}  // namespace sluice::app::suite
