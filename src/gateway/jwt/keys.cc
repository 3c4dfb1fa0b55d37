#include "gateway/jwt/keys.h"

#include <algorithm>
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
#include <openssl/rsa.h>
#include <simdjson.h>

#include "base/assert.h"
#include "base/base64url.h"
#include "base/contains.h"
#include "base/free.h"
#include "core/whole_file.h"
#include "gateway/jwt/scheme.h"

namespace sluice::gateway::jwt {
namespace {

using KeyContext = std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>>;
using Mac = std::unique_ptr<EVP_MAC, Free<EVP_MAC_free>>;
using MacContext = std::unique_ptr<EVP_MAC_CTX, Free<EVP_MAC_CTX_free>>;
using ParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, Free<OSSL_PARAM_BLD_free>>;
using Parameters = std::unique_ptr<OSSL_PARAM, Free<OSSL_PARAM_free>>;

using Kind = Key::Kind;

constexpr std::size_t largest_file = 1 << 20;
constexpr std::size_t ed25519_bytes = 32;
constexpr std::size_t longest_der = 144;  // of an ECDSA signature on P-521

// The algorithms to use a key with, without duplicates. `accepted`: as Options::algorithms.
std::vector<Algorithm> algorithms_for(Kind kind, const std::vector<Algorithm>& accepted) {
  std::vector<Algorithm> chosen;
  for (const auto& [name, algorithm] : algorithms) {
    if (scheme_of(algorithm).kind != kind) continue;
    if (accepted.empty()) return {algorithm};
    if (contains(accepted, algorithm)) chosen.push_back(algorithm);
  }
  return chosen;
}

PKey make_public(const char* type, OSSL_PARAM_BLD* builder) {
  const Parameters parameters(need(OSSL_PARAM_BLD_to_param(builder)));
  const KeyContext context(need(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr)));
  EVP_PKEY* key = nullptr;
  if (EVP_PKEY_fromdata_init(context.get()) <= 0 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters.get()) <= 0) {
    ERR_clear_error();
    return nullptr;
  }
  return PKey(key);
}

// Whether the point has an order of at most 8. Anybody can sign for such a key. OpenSSL accepts it. The y of these
// points is 0, 1, -1 or one of two others; the numbers beyond the field's prime mean 0 and 1 (RFC 8032, 5.1.3 refuses
// them).
bool has_small_order(std::string_view x) {
  constexpr std::string_view ff(
      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
      "\xff\xff",
      30);
  constexpr std::string_view of_order_8[] = {
      "\x26\xe8\x95\x8f\xc2\xb2\x27\xb0\x45\xc3\xf4\x89\xf2\xef\x98\xf0\xd5\xdf\xac\x05\xd3\xc6\x33\x39\xb1\x38\x02\x88"
      "\x6d\x53\xfc\x05",
      "\xc7\x17\x6a\x70\x3d\x4d\xd8\x4f\xba\x3c\x0b\x76\x0d\x10\x67\x0f\x2a\x20\x53\xfa\x2c\x39\xcc\xc6\x4e\xc7\xfd\x77"
      "\x92\xac\x03\x7a"};
  std::string y(x);
  y.back() &= '\x7f';  // the sign
  const auto first = static_cast<unsigned char>(y.front());
  const std::string_view rest = std::string_view(y).substr(1);
  if (first <= 1 && rest.find_first_not_of('\0') == rest.npos) return true;
  if (first >= 0xec && first <= 0xee && rest.starts_with(ff) && rest.back() == '\x7f') return true;
  return std::ranges::find(of_order_8, y) != std::end(of_order_8);
}

bool is_sound(EVP_PKEY* key) {
  const KeyContext context(need(EVP_PKEY_CTX_new_from_pkey(nullptr, key, nullptr)));
  const bool sound = EVP_PKEY_public_check(context.get()) == 1;
  ERR_clear_error();
  return sound;
}

// The messages do not contain the path, because it may be a secret that was set for the wrong key.
std::expected<std::string, std::string> read_file(const std::string& path) {
  auto text = core::read_whole_file(path, largest_file);
  if (!text) return std::unexpected("the file " + text.error());
  return text;
}

}  // namespace

struct Key::Material {
  Kind kind{};
  std::string secret;
  PKey public_key;

  ~Material() { OPENSSL_cleanse(secret.data(), secret.size()); }
};

Key::Key(Algorithm algorithm, std::optional<std::string> id, std::shared_ptr<const Material> material)
    : algorithm_(algorithm), id_(std::move(id)), material_(std::move(material)) {}
Key::~Key() = default;

Key::Kind Key::kind() const { return material_->kind; }

Key::Made Key::with(Algorithm algorithm) const {
  SLUICE_ASSERT(scheme_of(algorithm).kind == kind());
  if (kind() == Kind::secret) {
    if (auto wrong = check_secret(material_->secret.size(), algorithm); !wrong.empty()) {
      return std::unexpected(std::move(wrong));
    }
  }
  return std::shared_ptr<const Key>(new Key(algorithm, id_, material_));
}

Key::Made Key::from_secret(std::string_view secret, std::optional<std::string> id) {
  // If a public key were used as a secret, anyone could sign tokens with it.
  if (secret.find("-----BEGIN ") != secret.npos) {
    return std::unexpected("the secret is a PEM key; a public key belongs into \"public_key\"");
  }
  auto material = std::make_shared<Material>();
  material->kind = Kind::secret;
  material->secret = secret;
  return Key(Algorithm::hs256, std::move(id), std::move(material)).with(Algorithm::hs256);
}

Key::Made Key::from_public(std::shared_ptr<Material> material, std::optional<std::string> id) {
  EVP_PKEY* const key = material->public_key.get();
  const auto kind = kind_of(key);
  if (!kind) return std::unexpected(kind.error());
  material->kind = *kind;
  if (material->kind == Kind::ed25519) {
    std::string x(ed25519_bytes, '\0');
    std::size_t size = x.size();
    auto* const bytes = reinterpret_cast<unsigned char*>(x.data());
    if (EVP_PKEY_get_raw_public_key(key, bytes, &size) != 1 || has_small_order(x))
      return std::unexpected("anybody can sign for this Ed25519 key");
  }
  if (!is_sound(key)) return std::unexpected("the public key is not a valid one");
  const Algorithm algorithm = algorithms_for(material->kind, {}).front();
  return std::shared_ptr<const Key>(new Key(algorithm, std::move(id), std::move(material)));
}

Key::Made Key::from_pem(std::string_view pem, std::optional<std::string> id) {
  if (pem.find("PRIVATE KEY-----") != pem.npos) {
    return std::unexpected("it is a private key; only the public one is needed, and the other should not be here");
  }
  const Bio bio(need(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))));
  auto material = std::make_shared<Material>();
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
  auto material = std::make_shared<Material>();
  material->public_key = make_public("RSA", builder.get());
  if (!material->public_key) return std::unexpected(broken);
  return from_public(std::move(material), std::move(id));
}

Key::Made Key::from_ec(Kind kind, std::string_view x, std::string_view y, std::optional<std::string> id) {
  const Curve* const curve = curve_of(kind);
  SLUICE_ASSERT(curve != nullptr);
  const std::string name(curve->name);
  if (x.size() != curve->bytes || y.size() != curve->bytes) {
    return std::unexpected("\"x\" and \"y\" of a " + name + " key have " + std::to_string(curve->bytes) +
                           " bytes each");
  }
  std::string point = "\x04";  // the prefix of an uncompressed point
  point.append(x).append(y);
  const ParameterBuilder builder(need(OSSL_PARAM_BLD_new()));
  need(OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, curve->group, 0));
  need(OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()));
  auto material = std::make_shared<Material>();
  material->public_key = make_public("EC", builder.get());
  if (!material->public_key) return std::unexpected("\"x\" and \"y\" are no point of " + name);
  return from_public(std::move(material), std::move(id));
}

Key::Made Key::from_ed25519(std::string_view x, std::optional<std::string> id) {
  if (x.size() != ed25519_bytes) return std::unexpected("\"x\" of an Ed25519 key has 32 bytes");
  auto material = std::make_shared<Material>();
  material->public_key.reset(need(EVP_PKEY_new_raw_public_key_ex(nullptr, "ED25519", nullptr, bytes_of(x), x.size())));
  return from_public(std::move(material), std::move(id));
}

struct SignatureCheck::State {
  MacContext mac;        // for secrets; keyed, so that EVP_MAC_init() without a key restarts it
  DigestContext digest;  // for other keys
};

SignatureCheck::SignatureCheck(std::shared_ptr<const Key> key)
    : key_(std::move(key)), state_(std::make_unique<State>()) {
  if (key_->kind() != Kind::secret) {
    state_->digest.reset(need(EVP_MD_CTX_new()));
    return;
  }
  const Mac hmac(need(EVP_MAC_fetch(nullptr, "HMAC", nullptr)));
  state_->mac.reset(need(EVP_MAC_CTX_new(hmac.get())));
  std::string digest = EVP_MD_get0_name(scheme_of(key_->algorithm()).digest());
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), 0),
                                   OSSL_PARAM_construct_end()};
  const std::string& secret = key_->material_->secret;
  need(EVP_MAC_init(state_->mac.get(), bytes_of(secret), secret.size(), parameters));
}

SignatureCheck::SignatureCheck(SignatureCheck&&) noexcept = default;
SignatureCheck::~SignatureCheck() = default;

bool SignatureCheck::verify(std::string_view signing_input, std::string_view signature) {
  if (key_->kind() == Kind::secret) {
    unsigned char mac[EVP_MAX_MD_SIZE];
    std::size_t size = 0;
    EVP_MAC_CTX* const context = state_->mac.get();
    const bool done = EVP_MAC_init(context, nullptr, 0, nullptr) == 1 &&
                      EVP_MAC_update(context, bytes_of(signing_input), signing_input.size()) == 1 &&
                      EVP_MAC_final(context, mac, &size, sizeof mac) == 1;
    if (!done) ERR_clear_error();
    return done && signature.size() == size && CRYPTO_memcmp(mac, signature.data(), size) == 0;
  }

  // OpenSSL takes ECDSA signatures as DER: SEQUENCE { INTEGER r, INTEGER s }.
  unsigned char der[longest_der];
  if (const Curve* const curve = curve_of(key_->kind())) {
    if (signature.size() != 2 * curve->bytes) return false;
    const auto half = static_cast<int>(curve->bytes);
    const EcdsaSignature numbers(need(ECDSA_SIG_new()));
    Number r(need(BN_bin2bn(bytes_of(signature), half, nullptr)));
    Number s(need(BN_bin2bn(bytes_of(signature) + half, half, nullptr)));
    // A verifier without this check could accept such a signature for every message.
    if (BN_is_zero(r.get()) || BN_is_zero(s.get())) return false;
    need(ECDSA_SIG_set0(numbers.get(), r.release(), s.release()));
    unsigned char* end = der;
    const int size = i2d_ECDSA_SIG(numbers.get(), &end);
    if (size <= 0 || static_cast<std::size_t>(size) > sizeof der) return false;
    signature = {reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)};
  }
  const Scheme& scheme = scheme_of(key_->algorithm());
  EVP_MD_CTX* const context = state_->digest.get();
  EVP_PKEY_CTX* padding = nullptr;  // owned by the context
  // RFC 7518, 3.5: for PS256, PS384 and PS512 the salt is as long as the hash.
  const bool good =
      EVP_DigestVerifyInit(context, &padding, scheme.digest(), nullptr, key_->material_->public_key.get()) == 1 &&
      (!scheme.is_pss || (EVP_PKEY_CTX_set_rsa_padding(padding, RSA_PKCS1_PSS_PADDING) == 1 &&
                          EVP_PKEY_CTX_set_rsa_pss_saltlen(padding, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
      EVP_DigestVerify(context, bytes_of(signature), signature.size(), bytes_of(signing_input), signing_input.size()) ==
          1;
  EVP_MD_CTX_reset(context);
  if (!good) ERR_clear_error();
  return good;
}

namespace {

// A member's decoded text; nothing if it is missing or not base64url.
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

// Nothing if tokens are not signed with keys of this type.
std::optional<Kind> kind_of(const simdjson::dom::object& object) {
  const std::string_view type = text_member(object, "kty");
  const std::string_view curve = text_member(object, "crv");
  if (type == "oct") return Kind::secret;
  if (type == "RSA") return Kind::rsa;
  if (type == "OKP" && curve == "Ed25519") return Kind::ed25519;
  const auto* const found = std::ranges::find(curves, curve, &Curve::name);
  return type == "EC" && found != std::end(curves) ? std::optional(found->kind) : std::nullopt;
}

// Returns why the key cannot verify with a supported algorithm. Empty if it can; then `chosen` has the algorithms.
std::string reason_to_skip(const simdjson::dom::object& object, std::optional<Kind> kind,
                           const std::vector<Algorithm>& accepted, Provenance provenance,
                           std::vector<Algorithm>& chosen) {
  if (!kind) return "its type is not supported";
  if (kind == Kind::secret && provenance == Provenance::issuer) return "an issuer must not publish a secret";
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
    const auto own = named.get(name) == simdjson::SUCCESS ? parse_algorithm(name) : std::nullopt;
    if (!own || scheme_of(*own).kind != *kind) return "its \"alg\" is not supported";
    if (accepted.empty() || contains(accepted, *own)) chosen = {*own};
  } else {
    chosen = algorithms_for(*kind, accepted);
  }
  return chosen.empty() ? "none of \"algorithms\" is for it" : "";
}

Key::Made make_key(const simdjson::dom::object& object, Kind kind, std::optional<std::string> id) {
  const auto broken = [](const char* names) {
    return std::unexpected(std::string(names) + " missing, or not base64url without padding");
  };
  switch (kind) {
    case Kind::secret: {
      const auto secret = bytes_member(object, "k");
      if (!secret) return broken("\"k\" is");
      return Key::from_secret(*secret, std::move(id));
    }
    case Kind::rsa: {
      const auto modulus = bytes_member(object, "n");
      const auto exponent = bytes_member(object, "e");
      if (!modulus || !exponent) return broken("\"n\" or \"e\" is");
      return Key::from_rsa(*modulus, *exponent, std::move(id));
    }
    case Kind::p256:
    case Kind::p384:
    case Kind::p521: {
      const auto x = bytes_member(object, "x");
      const auto y = bytes_member(object, "y");
      if (!x || !y) return broken("\"x\" or \"y\" is");
      return Key::from_ec(kind, *x, *y, std::move(id));
    }
    case Kind::ed25519: {
      const auto x = bytes_member(object, "x");
      if (!x) return broken("\"x\" is");
      return Key::from_ed25519(*x, std::move(id));
    }
  }
  std::unreachable();
}

// Adds a key to `set` once for each of its algorithms, and appends its id to `name`. Returns what is wrong with the
// key, or nothing.
std::optional<std::string> add_key(const simdjson::dom::element& element, const std::vector<Algorithm>& accepted,
                                   Provenance provenance, std::string& name, KeySet& set) {
  simdjson::dom::object object;
  if (element.get(object) != simdjson::SUCCESS) return "it is no JSON object";
  std::optional<std::string> id;
  simdjson::dom::element id_member;
  if (object.at_key("kid").get(id_member) == simdjson::SUCCESS) {
    std::string_view text;
    if (id_member.get(text) != simdjson::SUCCESS) return "\"kid\" is no string";
    id = std::string(text);
    name += " (\"" + *id + "\")";
  }
  const auto kind = kind_of(object);
  std::vector<Algorithm> chosen;
  if (const std::string reason = reason_to_skip(object, kind, accepted, provenance, chosen); !reason.empty()) {
    set.warnings.push_back(name + " is left out: " + reason);
    return std::nullopt;
  }
  const auto key = make_key(object, *kind, id);
  if (!key) return key.error();
  for (const Algorithm algorithm : chosen) {
    for (const auto& other : set.keys) {
      if (other->id() == id && other->algorithm() == algorithm) {
        return "another key for " + std::string(name_of(algorithm)) +
               (id ? " has the same \"kid\"" : " has no \"kid\" either");
      }
    }
    auto one = (*key)->with(algorithm);
    if (!one) return one.error();
    set.keys.push_back(std::move(*one));
  }
  return std::nullopt;
}

}  // namespace

std::expected<KeySet, std::string> parse_jwks(std::string_view json, const std::vector<Algorithm>& accepted,
                                              Provenance provenance) {
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
    const auto wrong = add_key(element, accepted, provenance, name, set);
    if (!wrong) continue;
    if (provenance == Provenance::file) return std::unexpected(name + ": " + *wrong);
    set.warnings.push_back(name + " is left out: " + *wrong);
  }
  if (set.keys.empty()) return std::unexpected("it has no key to verify tokens with");
  return set;
}

std::expected<std::shared_ptr<const KeySet>, KeyProblem> load_keys(const Options& options) {
  auto set = std::make_shared<KeySet>();
  // Adds the only key. Returns what is wrong with it, or nothing.
  const auto add = [&](const Key::Made& key) -> std::optional<std::string> {
    if (!key) return key.error();
    for (const Algorithm algorithm : algorithms_for((*key)->kind(), options.algorithms)) {
      auto one = (*key)->with(algorithm);
      if (!one) return one.error();
      set->keys.push_back(std::move(*one));
    }
    return set->keys.empty() ? std::optional<std::string>("none of \"algorithms\" is for this key") : std::nullopt;
  };
  if (options.secret) {
    // The error does not have the position of the secret, because the message would show that line.
    if (auto wrong = add(Key::from_secret(options.secret->value))) {
      return std::unexpected(KeyProblem{options.position, std::move(*wrong)});
    }
    return set;
  }
  const Located<std::string>& path = options.secret_file  ? *options.secret_file
                                     : options.public_key ? *options.public_key
                                                          : *options.jwks;
  const auto wrong = [&](const std::string& text) { return std::unexpected(KeyProblem{path.position, text}); };
  auto text = read_file(path.value);
  if (!text) return wrong(text.error());
  if (options.jwks) {
    auto parsed = parse_jwks(*text, options.algorithms);
    if (!parsed) return wrong(path.value + ": " + parsed.error());
    *set = std::move(*parsed);
    for (std::string& warning : set->warnings) warning = path.value + ": " + warning;
    return set;
  }
  if (options.secret_file) {
    if (text->ends_with('\n')) text->pop_back();
    if (text->ends_with('\r')) text->pop_back();
  }
  const auto fault = add(options.secret_file ? Key::from_secret(*text) : Key::from_pem(*text));
  if (fault) return wrong(path.value + ": " + *fault);
  return set;
}

}  // namespace sluice::gateway::jwt
