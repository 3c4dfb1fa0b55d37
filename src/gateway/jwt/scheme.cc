#include "gateway/jwt/scheme.h"

#include <openssl/err.h>

namespace sluice::gateway::jwt {

std::string check_secret(std::size_t bytes, Algorithm algorithm) {
  if (bytes >= min_secret(algorithm)) return {};
  return "the secret has " + std::to_string(bytes) + " bytes; " + std::string(name_of(algorithm)) + " needs " +
         std::to_string(min_secret(algorithm));
}

std::expected<Key::Kind, std::string> kind_of(EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "RSA") == 1) {
    const auto bits = static_cast<unsigned>(EVP_PKEY_get_bits(key));
    if (bits < Key::min_rsa_bits) {
      return std::unexpected("the RSA key has " + std::to_string(bits) + " bits; " + std::to_string(Key::min_rsa_bits) +
                             " are needed");
    }
    if (bits > Key::max_rsa_bits) {
      return std::unexpected("the RSA key has more than " + std::to_string(Key::max_rsa_bits) + " bits");
    }
    return Key::Kind::rsa;
  }
  if (EVP_PKEY_is_a(key, "EC") == 1) {
    char group[64] = {};
    std::size_t size = 0;
    (void)EVP_PKEY_get_group_name(key, group, sizeof group, &size);
    const auto* const curve = std::ranges::find(curves, std::string_view(group), &Curve::group);
    if (curve != std::end(curves)) return curve->kind;
    ERR_clear_error();
    return std::unexpected("the EC key is not on P-256, P-384 or P-521");
  }
  if (EVP_PKEY_is_a(key, "ED25519") == 1) return Key::Kind::ed25519;
  return std::unexpected("the key is neither RSA, EC nor Ed25519");
}

}  // namespace sluice::gateway::jwt
