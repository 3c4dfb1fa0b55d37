#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "gateway/jwt/options.h"
#include "gateway/jwt/token.h"

namespace sluice::gateway::jwt {

// A key and the one algorithm that it is for: what a token says of algorithms never changes which is used.
class Key {
 public:
  static constexpr std::size_t min_secret = 32;   // bytes: RFC 7518, 3.2
  static constexpr unsigned min_rsa_bits = 2048;  // RFC 7518, 3.3
  static constexpr unsigned max_rsa_bits = 8192;  // beyond it verifying takes a core's time

  // An error is what is wrong with it, without the key.
  using Made = std::expected<std::shared_ptr<const Key>, std::string>;
  [[nodiscard]] static Made from_secret(std::string_view secret, std::optional<std::string> id = {});
  // A PEM public key: RSA, or EC on P-256.
  [[nodiscard]] static Made from_pem(std::string_view pem, std::optional<std::string> id = {});
  // Big-endian numbers of a JWK.
  [[nodiscard]] static Made from_rsa(std::string_view modulus, std::string_view exponent,
                                     std::optional<std::string> id = {});
  [[nodiscard]] static Made from_p256(std::string_view x, std::string_view y, std::optional<std::string> id = {});

  ~Key();
  Key(const Key&) = delete;

  [[nodiscard]] Algorithm algorithm() const { return algorithm_; }
  [[nodiscard]] const std::optional<std::string>& id() const { return id_; }

 private:
  friend class SignatureCheck;
  struct Material;
  Key(Algorithm algorithm, std::optional<std::string> id, std::unique_ptr<Material> material);
  static Made from_public(std::unique_ptr<Material> material, std::optional<std::string> id);

  Algorithm algorithm_;
  std::optional<std::string> id_;
  std::unique_ptr<Material> material_;
};

// One core's use of a key: has what OpenSSL wants to be set up once.
class SignatureCheck {
 public:
  explicit SignatureCheck(std::shared_ptr<const Key> key);
  SignatureCheck(SignatureCheck&&) noexcept;
  ~SignatureCheck();

  [[nodiscard]] const Key& key() const { return *key_; }
  // `signature`: as JWS has it, for ES256 r and s with 32 bytes each (RFC 7518, 3.4).
  [[nodiscard]] bool verify(std::string_view signing_input, std::string_view signature);

 private:
  struct State;
  std::shared_ptr<const Key> key_;
  std::unique_ptr<State> state_;
};

// Of one policy. Immutable, shared by all cores.
struct KeySet {
  std::vector<std::shared_ptr<const Key>> keys;
  std::vector<std::string> warnings;  // keys of a JWKS that are left out
};

// What is wrong, and which value of the configuration names it.
struct KeyProblem {
  Position position;
  std::string text;
};

// Reads the files that the options name; exactly one of the four is there.
[[nodiscard]] std::expected<std::shared_ptr<const KeySet>, KeyProblem> load_keys(const Options& options);

// A JWK set (RFC 7517, 5). Keys of other types and for other uses are left out, with a warning; a key that is ours and
// weak or broken is an error, and so is a set without any of ours.
[[nodiscard]] std::expected<KeySet, std::string> parse_jwks(std::string_view json);

}  // namespace sluice::gateway::jwt
