#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "core/current.h"
#include "gateway/jwt/options.h"
#include "gateway/jwt/token.h"

namespace sluice::gateway::jwt {

// A key and the one algorithm that it is used with. A token's header cannot choose another algorithm.
class Key {
 public:
  // Each algorithm needs a key of a certain kind.
  enum class Kind : std::uint8_t { secret, rsa, p256, p384, p521, ed25519 };

  static constexpr unsigned min_rsa_bits = 2048;  // RFC 7518, 3.3
  static constexpr unsigned max_rsa_bits = 8192;  // larger keys take too much time to verify

  // The algorithm is the first one for the kind of key: HS256, RS256, ES256, ES384, ES512 or EdDSA. An error says what
  // is wrong with the key, without its value.
  using Made = std::expected<std::shared_ptr<const Key>, std::string>;
  [[nodiscard]] static Made from_secret(std::string_view secret, std::optional<std::string> id = {});
  // A PEM public key: RSA, EC or Ed25519.
  [[nodiscard]] static Made from_pem(std::string_view pem, std::optional<std::string> id = {});
  // The parameters are big-endian numbers of a JWK.
  [[nodiscard]] static Made from_rsa(std::string_view modulus, std::string_view exponent,
                                     std::optional<std::string> id = {});
  [[nodiscard]] static Made from_ec(Kind curve, std::string_view x, std::string_view y,
                                    std::optional<std::string> id = {});
  [[nodiscard]] static Made from_ed25519(std::string_view x, std::optional<std::string> id = {});

  // Returns the same key for another algorithm that uses this kind of key.
  [[nodiscard]] Made with(Algorithm algorithm) const;

  ~Key();
  Key(const Key&) = delete;

  [[nodiscard]] Kind kind() const;
  [[nodiscard]] Algorithm algorithm() const { return algorithm_; }
  [[nodiscard]] const std::optional<std::string>& id() const { return id_; }

 private:
  friend class SignatureCheck;
  struct Material;
  Key(Algorithm algorithm, std::optional<std::string> id, std::shared_ptr<const Material> material);
  static Made from_public(std::shared_ptr<Material> material, std::optional<std::string> id);

  Algorithm algorithm_;
  std::optional<std::string> id_;
  std::shared_ptr<const Material> material_;
};

// One core's use of a key. It keeps OpenSSL objects that are costly to set up.
class SignatureCheck {
 public:
  explicit SignatureCheck(std::shared_ptr<const Key> key);
  SignatureCheck(SignatureCheck&&) noexcept;
  ~SignatureCheck();

  [[nodiscard]] const Key& key() const { return *key_; }
  // `signature`: as in JWS. For ECDSA: r and s, each as long as the curve's order (RFC 7518, 3.4).
  [[nodiscard]] bool verify(std::string_view signing_input, std::string_view signature);

 private:
  struct State;
  std::shared_ptr<const Key> key_;
  std::unique_ptr<State> state_;
};

// The keys of one policy. Immutable, shared by all cores.
struct KeySet {
  std::vector<std::shared_ptr<const Key>> keys;
  std::vector<std::string> warnings;  // about keys of a JWKS that were left out
};

// An error, and the position of the configuration value that causes it.
struct KeyProblem {
  Position position;
  std::string text;
};

// Reads the key file that the options name, or takes the secret. Precondition: the options have no `jwks_url`.
[[nodiscard]] std::expected<std::shared_ptr<const KeySet>, KeyProblem> load_keys(const Options& options);

// Where a JWK set comes from.
enum class Provenance : std::uint8_t {
  file,    // a weak or broken key is an error
  issuer,  // a weak or broken key is left out; so is a secret, because the set is public
};
// Parses a JWK set (RFC 7517, 5). The result has a key for each algorithm that a JWK can be used with. `accepted`: as
// Options::algorithms. Keys of other types and for other uses are left out, with a warning. It is an error if no key is
// left.
[[nodiscard]] std::expected<KeySet, std::string> parse_jwks(std::string_view json,
                                                            const std::vector<Algorithm>& accepted = {},
                                                            Provenance provenance = Provenance::file);

// The keys of a policy, which change while it is used. Null: there are none.
using CurrentKeys = core::Current<KeySet>;

}  // namespace sluice::gateway::jwt
