#include "gateway/jwt/keys.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <simdjson.h>

#include "base/free.h"
#include "gateway/jwt/base64url.h"

namespace sluice::gateway::jwt {
namespace {

using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;
using PublicKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>>;
using Mac = std::unique_ptr<EVP_MAC, Free<EVP_MAC_free>>;
using MacContext = std::unique_ptr<EVP_MAC_CTX, Free<EVP_MAC_CTX_free>>;
using ParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, Free<OSSL_PARAM_BLD_free>>;
using Parameters = std::unique_ptr<OSSL_PARAM, Free<OSSL_PARAM_free>>;
using EcdsaSignature = std::unique_ptr<ECDSA_SIG, Free<ECDSA_SIG_free>>;

constexpr std::size_t p256_bytes = 32;
constexpr std::size_t mac_bytes = 32;
constexpr std::size_t largest_file = 1 << 20;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// Start-up: OpenSSL without memory is the end of it.
template <class T>
T need(T object) {
  if (!object) throw std::bad_alloc();
  return object;
}

PublicKey make_public(const char* type, OSSL_PARAM_BLD* builder) {
  const Parameters parameters(need(OSSL_PARAM_BLD_to_param(builder)));
  const KeyContext context(need(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr)));
  EVP_PKEY* key = nullptr;
  if (EVP_PKEY_fromdata_init(context.get()) <= 0 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) <= 0) {
    ERR_clear_error();
    return nullptr;
  }
  return PublicKey(key);
}

bool is_sound(EVP_PKEY* key) {
  const KeyContext context(need(EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr)));
  const bool sound = EVP_PKEY_public_check(context.get()) == 1;
  ERR_clear_error();
  return sound;
}

// The messages leave out the path: it may be a secret at the wrong key.
std::expected<std::string, std::string> read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (!file) return std::unexpected(std::string("the file cannot be read: ") + std::strerror(errno));
  std::string text;
  char block[16384];
  while (const std::size_t got = std::fread(block, 1, sizeof block, file.get())) {
    text.append(block, got);
    if (text.size() > largest_file) return std::unexpected("the file is larger than 1 MiB");
  }
  if (std::ferror(file.get())) return std::unexpected(std::string("the file cannot be read: ") + std::strerror(errno));
  return text;
}

}  // namespace

struct Key::Material {
  std::string secret;
  PublicKey public_key;

  ~Material() { OPENSSL_cleanse(secret.data(), secret.size()); }
};

Key::Key(Algorithm algorithm, std::optional<std::string> id, std::unique_ptr<Material> material)
    : algorithm_(algorithm), id_(std::move(id)), material_(std::move(material)) {}
Key::~Key() = default;

Key::Made Key::from_secret(std::string_view secret, std::optional<std::string> id) {
  // Whoever verifies with a public key as secret accepts what anybody can sign.
  if (secret.find("-----BEGIN ") != secret.npos) {
    return std::unexpected("the secret is a PEM key; a public key belongs into \"public_key\"");
  }
  if (secret.size() < min_secret) {
    return std::unexpected("the secret has " + std::to_string(secret.size()) + " bytes; HS256 needs " +
                           std::to_string(min_secret));
  }
  auto material = std::make_unique<Material>();
  material->secret = secret;
  return std::shared_ptr<const Key>(new Key(Algorithm::hs256, std::move(id), std::move(material)));
}

Key::Made Key::from_public(std::unique_ptr<Material> material, std::optional<std::string> id) {
  EVP_PKEY* const key = material->public_key.get();
  Algorithm algorithm{};
  if (EVP_PKEY_is_a(key, "RSA") == 1) {
    const auto bits = static_cast<unsigned>(EVP_PKEY_get_bits(key));
    if (bits < min_rsa_bits) {
      return std::unexpected("the RSA key has " + std::to_string(bits) + " bits; RS256 needs " +
                             std::to_string(min_rsa_bits));
    }
    if (bits > max_rsa_bits) {
      return std::unexpected("the RSA key has more than " + std::to_string(max_rsa_bits) + " bits");
    }
    algorithm = Algorithm::rs256;
  } else if (EVP_PKEY_is_a(key, "EC") == 1) {
    char group[64] = {};
    std::size_t size = 0;
    if (EVP_PKEY_get_group_name(key, group, sizeof group, &size) != 1 || std::string_view(group) != "prime256v1") {
      ERR_clear_error();
      return std::unexpected("the EC key is not on P-256, which ES256 needs");
    }
    algorithm = Algorithm::es256;
  } else {
    return std::unexpected("the key is neither RSA (RS256) nor EC on P-256 (ES256)");
  }
  if (!is_sound(key)) return std::unexpected("the public key is not a valid one");
  return std::shared_ptr<const Key>(new Key(algorithm, std::move(id), std::move(material)));
}

Key::Made Key::from_pem(std::string_view pem, std::optional<std::string> id) {
  if (pem.find("PRIVATE KEY-----") != pem.npos) {
    return std::unexpected("it is a private key; only the public one is needed, and the other should not be here");
  }
  const Bio bio(need(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))));
  auto material = std::make_unique<Material>();
  material->public_key.reset(PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (!material->public_key) return std::unexpected("it holds no PEM public key (\"-----BEGIN PUBLIC KEY-----\")");
  return from_public(std::move(material), std::move(id));
}

Key::Made Key::from_rsa(std::string_view modulus, std::string_view exponent, std::optional<std::string> id) {
  const std::string broken = "the RSA key's \"n\" and \"e\" are none";
  if (modulus.empty() || exponent.empty() || modulus.size() > max_rsa_bits || exponent.size() > 32) {
    return std::unexpected(broken);
  }
  const Number n(need(BN_bin2bn(bytes_of(modulus), static_cast<int>(modulus.size()), nullptr)));
  const Number e(need(BN_bin2bn(bytes_of(exponent), static_cast<int>(exponent.size()), nullptr)));
  const ParameterBuilder builder(need(OSSL_PARAM_BLD_new()));
  need(OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get()));
  need(OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get()));
  auto material = std::make_unique<Material>();
  material->public_key = make_public("RSA", builder.get());
  if (!material->public_key) return std::unexpected(broken);
  return from_public(std::move(material), std::move(id));
}

Key::Made Key::from_p256(std::string_view x, std::string_view y, std::optional<std::string> id) {
  if (x.size() != p256_bytes || y.size() != p256_bytes) {
    return std::unexpected("\"x\" and \"y\" of a P-256 key have 32 bytes each");
  }
  std::string point = "\x04";  // uncompressed
  point.append(x).append(y);
  const ParameterBuilder builder(need(OSSL_PARAM_BLD_new()));
  need(OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0));
  need(OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()));
  auto material = std::make_unique<Material>();
  material->public_key = make_public("EC", builder.get());
  if (!material->public_key) return std::unexpected("\"x\" and \"y\" are no point of P-256");
  return from_public(std::move(material), std::move(id));
}

struct SignatureCheck::State {
  MacContext mac;        // HS256: keyed, for EVP_MAC_init() without a key to start over
  DigestContext digest;  // the others
};

SignatureCheck::SignatureCheck(std::shared_ptr<const Key> key)
    : key_(std::move(key)), state_(std::make_unique<State>()) {
  if (key_->algorithm() != Algorithm::hs256) {
    state_->digest.reset(need(EVP_MD_CTX_new()));
    return;
  }
  const Mac hmac(need(EVP_MAC_fetch(nullptr, "HMAC", nullptr)));
  state_->mac.reset(need(EVP_MAC_CTX_new(hmac.get())));
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                   OSSL_PARAM_construct_end()};
  const std::string& secret = key_->material_->secret;
  need(EVP_MAC_init(state_->mac.get(), bytes_of(secret), secret.size(), parameters));
}

SignatureCheck::SignatureCheck(SignatureCheck&&) noexcept = default;
SignatureCheck::~SignatureCheck() = default;

bool SignatureCheck::verify(std::string_view signing_input, std::string_view signature) {
  if (key_->algorithm() == Algorithm::hs256) {
    unsigned char mac[mac_bytes];
    std::size_t size = 0;
    EVP_MAC_CTX* const context = state_->mac.get();
    const bool done = EVP_MAC_init(context, nullptr, 0, nullptr) == 1 &&
                      EVP_MAC_update(context, bytes_of(signing_input), signing_input.size()) == 1 &&
                      EVP_MAC_final(context, mac, &size, sizeof mac) == 1;
    if (!done) ERR_clear_error();
    return done && size == mac_bytes && signature.size() == mac_bytes &&
           CRYPTO_memcmp(mac, signature.data(), mac_bytes) == 0;
  }

  // OpenSSL takes ECDSA's numbers as DER: SEQUENCE { INTEGER r, INTEGER s }.
  unsigned char der[80];
  if (key_->algorithm() == Algorithm::es256) {
    if (signature.size() != 2 * p256_bytes) return false;
    const EcdsaSignature numbers(need(ECDSA_SIG_new()));
    Number r(need(BN_bin2bn(bytes_of(signature), p256_bytes, nullptr)));
    Number s(need(BN_bin2bn(bytes_of(signature) + p256_bytes, p256_bytes, nullptr)));
    if (BN_is_zero(r.get()) || BN_is_zero(s.get())) return false;  // a signature of everything, where nobody looks
    need(ECDSA_SIG_set0(numbers.get(), r.release(), s.release()));
    unsigned char* end = der;
    const int size = i2d_ECDSA_SIG(numbers.get(), &end);
    if (size <= 0 || static_cast<std::size_t>(size) > sizeof der) return false;
    signature = {reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)};
  }
  EVP_MD_CTX* const context = state_->digest.get();
  const bool good =
      EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, key_->material_->public_key.get()) == 1 &&
      EVP_DigestVerify(context, bytes_of(signature), signature.size(), bytes_of(signing_input), signing_input.size()) ==
          1;
  EVP_MD_CTX_reset(context);
  if (!good) ERR_clear_error();
  return good;
}

namespace {

// A member's text, decoded; nothing where it is missing or no base64url.
std::optional<std::string> bytes_member(const simdjson::dom::object& object, std::string_view name) {
  std::string_view text;
  std::string bytes;
  if (object.at_key(name).get(text) != simdjson::SUCCESS || !decode_base64url(text, bytes)) return std::nullopt;
  return bytes;
}

std::string_view text_member(const simdjson::dom::object& object, std::string_view name) {
  std::string_view text;
  return object.at_key(name).get(text) == simdjson::SUCCESS ? text : std::string_view();
}

// Why the key is not for verifying with one of our algorithms; empty: it is.
std::string reason_to_skip(const simdjson::dom::object& object, std::optional<Algorithm>& algorithm) {
  const std::string_view type = text_member(object, "kty");
  if (type == "oct") algorithm = Algorithm::hs256;
  if (type == "RSA") algorithm = Algorithm::rs256;
  if (type == "EC" && text_member(object, "crv") == "P-256") algorithm = Algorithm::es256;
  if (!algorithm) return "its type is not supported";
  if (const std::string_view use = text_member(object, "use"); !use.empty() && use != "sig") {
    return "it is not for signatures";
  }
  simdjson::dom::array operations;
  if (object.at_key("key_ops").get(operations) == simdjson::SUCCESS) {
    const bool verifies = std::ranges::any_of(operations, [](const simdjson::dom::element& one) {
      std::string_view operation;
      return one.get(operation) == simdjson::SUCCESS && (operation == "verify" || operation == "sign");
    });
    if (!verifies) return "it is not for verifying";
  }
  simdjson::dom::element named;
  if (object.at_key("alg").get(named) == simdjson::SUCCESS) {
    std::string_view name;
    if (named.get(name) != simdjson::SUCCESS || name != name_of(*algorithm)) return "its \"alg\" is not supported";
  }
  return {};
}

Key::Made make_key(const simdjson::dom::object& object, Algorithm algorithm, std::optional<std::string> id) {
  const auto broken = [](const char* names) {
    return std::unexpected(std::string(names) + " missing, or not base64url without padding");
  };
  switch (algorithm) {
    case Algorithm::hs256: {
      const auto secret = bytes_member(object, "k");
      if (!secret) return broken("\"k\" is");
      return Key::from_secret(*secret, std::move(id));
    }
    case Algorithm::rs256: {
      const auto modulus = bytes_member(object, "n");
      const auto exponent = bytes_member(object, "e");
      if (!modulus || !exponent) return broken("\"n\" or \"e\" is");
      return Key::from_rsa(*modulus, *exponent, std::move(id));
    }
    case Algorithm::es256: {
      const auto x = bytes_member(object, "x");
      const auto y = bytes_member(object, "y");
      if (!x || !y) return broken("\"x\" or \"y\" is");
      return Key::from_p256(*x, *y, std::move(id));
    }
  }
  return std::unexpected("it has no algorithm");
}

}  // namespace

std::expected<KeySet, std::string> parse_jwks(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  simdjson::dom::array list;
  if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS ||
      root.at_key("keys").get(list) != simdjson::SUCCESS) {
    return std::unexpected("it is no JWK set: a JSON object with a list \"keys\"");
  }
  KeySet set;
  std::size_t number = 0;
  for (const auto element : list) {
    std::string name = "key " + std::to_string(++number);
    simdjson::dom::object object;
    if (element.get(object) != simdjson::SUCCESS) return std::unexpected(name + " is no JSON object");
    std::optional<std::string> id;
    simdjson::dom::element id_member;
    if (object.at_key("kid").get(id_member) == simdjson::SUCCESS) {
      std::string_view text;
      if (id_member.get(text) != simdjson::SUCCESS) return std::unexpected(name + ": \"kid\" is no string");
      id = std::string(text);
      name += " (\"" + *id + "\")";
    }
    std::optional<Algorithm> algorithm;
    if (const std::string reason = reason_to_skip(object, algorithm); !reason.empty()) {
      set.warnings.push_back(name + " is left out: " + reason);
      continue;
    }
    for (const auto& other : set.keys) {
      if (other->id() == id && other->algorithm() == *algorithm) {
        return std::unexpected(name + ": another key for " + std::string(name_of(*algorithm)) +
                               (id ? " has the same \"kid\"" : " has no \"kid\" either"));
      }
    }
    auto key = make_key(object, *algorithm, std::move(id));
    if (!key) return std::unexpected(name + ": " + key.error());
    set.keys.push_back(std::move(*key));
  }
  if (set.keys.empty()) return std::unexpected("it has no key for HS256, RS256 or ES256");
  return set;
}

std::expected<std::shared_ptr<const KeySet>, KeyProblem> load_keys(const Options& options) {
  auto set = std::make_shared<KeySet>();
  if (options.secret) {
    // Not at the secret's own place: an error shows its line.
    auto key = Key::from_secret(options.secret->value);
    if (!key) return std::unexpected(KeyProblem{options.position, key.error()});
    set->keys.push_back(std::move(*key));
    return set;
  }
  const Located<std::string>& path = options.secret_file  ? *options.secret_file
                                     : options.public_key ? *options.public_key
                                                          : *options.jwks;
  const auto wrong = [&](const std::string& text) { return std::unexpected(KeyProblem{path.position, text}); };
  auto text = read_file(path.value);
  if (!text) return wrong(text.error());
  if (options.jwks) {
    auto parsed = parse_jwks(*text);
    if (!parsed) return wrong(path.value + ": " + parsed.error());
    *set = std::move(*parsed);
    for (std::string& warning : set->warnings) warning = path.value + ": " + warning;
    return set;
  }
  if (options.secret_file) {
    if (text->ends_with('\n')) text->pop_back();
    if (text->ends_with('\r')) text->pop_back();
  }
  auto key = options.secret_file ? Key::from_secret(*text) : Key::from_pem(*text);
  if (!key) return wrong(path.value + ": " + key.error());
  set->keys.push_back(std::move(*key));
  return set;
}

}  // namespace sluice::gateway::jwt
