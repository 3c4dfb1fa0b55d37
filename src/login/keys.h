#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/jwt/keys.h"
#include "gateway/jwt/signing_key.h"
#include "login/options.h"

namespace sluice::login {

// The keys of [login]. Immutable, shared by all cores.
class Keys {
 public:
  // Reads the files. The problem says which key cannot be used, without its value.
  [[nodiscard]] static std::expected<std::shared_ptr<const Keys>, gateway::jwt::KeyProblem> load(
      const Options& options);

  // A signed token (RFC 7515, 7.1). `payload`: the claims as JSON.
  [[nodiscard]] std::string sign(std::string_view payload) const;
  [[nodiscard]] const std::shared_ptr<const gateway::jwt::KeySet>& verifying() const { return verifying_; }
  [[nodiscard]] const std::string& jwks() const { return jwks_; }  // the public keys (RFC 7517, 5)
  [[nodiscard]] gateway::jwt::Algorithm algorithm() const { return algorithm_; }
  // A secret that follows from the key that signs.
  [[nodiscard]] std::string pepper() const;
  // Whether both sign and verify alike.
  [[nodiscard]] bool is_same(const Keys& other) const;

 private:
  Keys() = default;
  std::vector<gateway::jwt::SigningKey> keys_;  // the first signs
  gateway::jwt::Algorithm algorithm_{};         // of the first
  std::string id_;                              // likewise: its "kid"
  std::shared_ptr<const gateway::jwt::KeySet> verifying_;
  std::string jwks_;
};

}  // namespace sluice::login
