#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <openssl/types.h>

#include "gateway/jwt/keys.h"
#include "gateway/jwt/token.h"

namespace sluice::gateway::jwt {

// A private key or a secret, for the commands that make keys and tokens. The server itself only verifies.
class SigningKey {
 public:
  static constexpr unsigned new_rsa_bits = 3072;

  // Makes a key for the algorithm. Throws std::bad_alloc if OpenSSL cannot.
  [[nodiscard]] static SigningKey generate(Algorithm algorithm);
  // Reads the content of a file: a PEM private key without a password, or else a secret as in `secret_file`.
  [[nodiscard]] static std::expected<SigningKey, std::string> parse(std::string_view text);

  [[nodiscard]] Key::Kind kind() const { return kind_; }
  // The first algorithm for this kind of key, as for Key.
  [[nodiscard]] Algorithm default_algorithm() const;
  // Returns why the key cannot be used with this algorithm; empty if it can.
  [[nodiscard]] std::string check(Algorithm algorithm) const;

  // The content of a file for parse(): PKCS #8 in PEM, or the secret and a line break.
  [[nodiscard]] std::string text() const;
  // Precondition of these two: the key is not a secret.
  [[nodiscard]] std::string public_pem() const;
  // The members of the public JWK that RFC 7638 requires, in its order: `"crv":"Ed25519","kty":"OKP","x":"..."`.
  [[nodiscard]] std::string members() const;
  // The first 16 hexadecimal digits of the SHA-256 thumbprint (RFC 7638). Unlike base64url it never begins with "-".
  [[nodiscard]] std::string short_thumbprint() const;

  // Returns the JWS of the payload in compact form (RFC 7515, 7.1). `key_id` may be empty.
  // Precondition: check(algorithm) is empty.
  [[nodiscard]] std::string sign(Algorithm algorithm, std::string_view key_id, std::string_view payload) const;

 private:
  struct FreeKey {
    void operator()(EVP_PKEY* key) const;
  };
  SigningKey(Key::Kind kind, std::string secret, EVP_PKEY* key) : kind_(kind), secret_(std::move(secret)), key_(key) {}
  [[nodiscard]] std::string signature(Algorithm algorithm, std::string_view input) const;

  Key::Kind kind_;
  std::string secret_;  // empty for other keys
  std::unique_ptr<EVP_PKEY, FreeKey> key_;
};

}  // namespace sluice::gateway::jwt
