#pragma once

#include <algorithm>
#include <cstddef>
#include <expected>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>

#include "base/free.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/token.h"

// The kind of key and the hash of each algorithm, in OpenSSL's terms: for those who verify and those who sign.
namespace sluice::gateway::jwt {

using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;
using PKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>>;
using EcdsaSignature = std::unique_ptr<ECDSA_SIG, Free<ECDSA_SIG_free>>;

// Ed25519 needs no separate digest.
inline const EVP_MD* no_digest() { return nullptr; }

// Indexed by Algorithm.
struct Scheme {
  Key::Kind kind;
  const EVP_MD* (*digest)();
  bool is_pss = false;
};
inline constexpr Scheme schemes[] = {
    {Key::Kind::secret, EVP_sha256},    {Key::Kind::secret, EVP_sha384},    {Key::Kind::secret, EVP_sha512},
    {Key::Kind::rsa, EVP_sha256},       {Key::Kind::rsa, EVP_sha384},       {Key::Kind::rsa, EVP_sha512},
    {Key::Kind::rsa, EVP_sha256, true}, {Key::Kind::rsa, EVP_sha384, true}, {Key::Kind::rsa, EVP_sha512, true},
    {Key::Kind::p256, EVP_sha256},      {Key::Kind::p384, EVP_sha384},      {Key::Kind::p521, EVP_sha512},
    {Key::Kind::ed25519, no_digest}};
static_assert(std::size(schemes) == std::size(algorithms));

inline const Scheme& scheme_of(Algorithm algorithm) { return schemes[static_cast<std::size_t>(algorithm)]; }

// RFC 7518, 3.2: a secret must be at least as long as the hash.
inline std::size_t min_secret(Algorithm algorithm) {
  return static_cast<std::size_t>(EVP_MD_get_size(scheme_of(algorithm).digest()));
}
// Returns an error if a secret of so many bytes is too short for the algorithm; empty if it is not.
[[nodiscard]] std::string check_secret(std::size_t bytes, Algorithm algorithm);

struct Curve {
  Key::Kind kind;
  std::string_view name;  // in a JWK
  const char* group;      // OpenSSL's name
  std::size_t bytes;      // size of a coordinate, and of half a signature
};
inline constexpr Curve curves[] = {{Key::Kind::p256, "P-256", "prime256v1", 32},
                                   {Key::Kind::p384, "P-384", "secp384r1", 48},
                                   {Key::Kind::p521, "P-521", "secp521r1", 66}};

// Null if the key is not on an elliptic curve.
inline const Curve* curve_of(Key::Kind kind) {
  const auto* const found = std::ranges::find(curves, kind, &Curve::kind);
  return found != std::end(curves) ? found : nullptr;
}

// The kind of a public or private key. An error says why no algorithm uses it.
[[nodiscard]] std::expected<Key::Kind, std::string> kind_of(EVP_PKEY* key);

inline const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// If OpenSSL has no memory at start-up, the program ends.
template <class T>
T need(T object) {
  if (!object) throw std::bad_alloc();
  return object;
}

}  // namespace sluice::gateway::jwt
