#include "gateway/jwt/signing_key.h"

#include <utility>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>

#include "base/assert.h"
#include "base/base64url.h"
#include "base/buffer.h"
#include "base/json.h"
#include "gateway/digest.h"
#include "gateway/jwt/scheme.h"

namespace sluice::gateway::jwt {
namespace {

void need_success(int result) {
  if (result <= 0) throw std::bad_alloc();
}

EVP_PKEY* generate_key(Key::Kind kind) {
  if (kind == Key::Kind::rsa) return need(EVP_RSA_gen(SigningKey::new_rsa_bits));
  if (const Curve* const curve = curve_of(kind)) return need(EVP_EC_gen(curve->group));
  return need(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
}

std::string content_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

// A number of the public key, in base64url. `size` 0: without leading zeros.
std::string number_of(const EVP_PKEY* key, const char* name, std::size_t size = 0) {
  BIGNUM* found = nullptr;
  need_success(EVP_PKEY_get_bn_param(key, name, &found));
  const Number number(found);
  std::string bytes(size > 0 ? size : static_cast<std::size_t>(BN_num_bytes(found)), '\0');
  need_success(BN_bn2binpad(found, reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())));
  return encode_base64url(bytes);
}

// An encrypted key is refused. Without this function OpenSSL would ask for its password on the terminal.
int no_password(char*, int, int, void*) { return -1; }

}  // namespace

void SigningKey::FreeKey::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

SigningKey SigningKey::generate(Algorithm algorithm) {
  const Key::Kind kind = scheme_of(algorithm).kind;
  if (kind != Key::Kind::secret) return {kind, {}, generate_key(kind)};
  unsigned char bytes[EVP_MAX_MD_SIZE];
  const std::size_t size = min_secret(algorithm);
  need_success(RAND_priv_bytes(bytes, static_cast<int>(size)));
  return {kind, encode_base64url({reinterpret_cast<const char*>(bytes), size}), nullptr};
}

std::expected<SigningKey, std::string> SigningKey::parse(std::string_view text) {
  if (!text.contains("-----BEGIN ")) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    return SigningKey(Key::Kind::secret, std::string(text), nullptr);
  }
  if (!text.contains("PRIVATE KEY-----")) {
    return std::unexpected("it holds no private key, and a public key cannot sign");
  }
  const Bio bio(need(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))));
  PKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (!key) return std::unexpected("its private key is broken, or encrypted");
  const auto kind = kind_of(key.get());
  if (!kind) return std::unexpected(kind.error());
  return SigningKey(*kind, {}, key.release());
}

Algorithm SigningKey::default_algorithm() const {
  return static_cast<Algorithm>(std::ranges::find(schemes, kind_, &Scheme::kind) - std::begin(schemes));
}

std::string SigningKey::check(Algorithm algorithm) const {
  if (scheme_of(algorithm).kind == kind_) {
    return kind_ == Key::Kind::secret ? check_secret(secret_.size(), algorithm) : std::string();
  }
  std::string fitting;
  for (const auto& [name, other] : algorithms) {
    if (scheme_of(other).kind == kind_) fitting.append(fitting.empty() ? "" : ", ").append(name);
  }
  return "the key is not for " + std::string(name_of(algorithm)) + ", but for " + fitting;
}

std::string SigningKey::text() const {
  if (kind_ == Key::Kind::secret) return secret_ + "\n";
  const Bio bio(need(BIO_new(BIO_s_mem())));
  need_success(PEM_write_bio_PKCS8PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr));
  return content_of(bio.get());
}

std::string SigningKey::public_pem() const {
  const Bio bio(need(BIO_new(BIO_s_mem())));
  need_success(PEM_write_bio_PUBKEY(bio.get(), key_.get()));
  return content_of(bio.get());
}

std::string SigningKey::members() const {
  SLUICE_ASSERT(kind_ != Key::Kind::secret);
  if (kind_ == Key::Kind::rsa) {
    return R"("e":")" + number_of(key_.get(), OSSL_PKEY_PARAM_RSA_E) + R"(","kty":"RSA","n":")" +
           number_of(key_.get(), OSSL_PKEY_PARAM_RSA_N) + '"';
  }
  if (const Curve* const curve = curve_of(kind_)) {
    return R"("crv":")" + std::string(curve->name) + R"(","kty":"EC","x":")" +
           number_of(key_.get(), OSSL_PKEY_PARAM_EC_PUB_X, curve->bytes) + R"(","y":")" +
           number_of(key_.get(), OSSL_PKEY_PARAM_EC_PUB_Y, curve->bytes) + '"';
  }
  std::string x(32, '\0');
  std::size_t size = x.size();
  need_success(EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(x.data()), &size));
  return R"("crv":"Ed25519","kty":"OKP","x":")" + encode_base64url(x) + '"';
}

std::string SigningKey::short_thumbprint() const {
  const std::string required =
      kind_ == Key::Kind::secret ? R"("k":")" + encode_base64url(secret_) + R"(","kty":"oct")" : members();
  return Sha256().of("{" + required + "}").hex().substr(0, 16);
}

std::string SigningKey::sign(Algorithm algorithm, std::string_view key_id, std::string_view payload) const {
  Buffer header;
  header.append(R"({"alg":")");
  header.append(name_of(algorithm));
  header.append(R"(","typ":"JWT")");
  if (!key_id.empty()) {
    header.append(R"(,"kid":")");
    append_json_escaped(header, key_id);
    header.append("\"");
  }
  header.append("}");
  const std::string input = encode_base64url(header.view()) + "." + encode_base64url(payload);
  return input + "." + encode_base64url(signature(algorithm, input));
}

std::string SigningKey::signature(Algorithm algorithm, std::string_view input) const {
  SLUICE_ASSERT(check(algorithm).empty());
  const Scheme& scheme = scheme_of(algorithm);
  if (kind_ == Key::Kind::secret) {
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    need(HMAC(scheme.digest(), secret_.data(), static_cast<int>(secret_.size()), bytes_of(input), input.size(), mac,
              &size));
    return {reinterpret_cast<const char*>(mac), size};
  }
  const DigestContext context(need(EVP_MD_CTX_new()));
  EVP_PKEY_CTX* padding = nullptr;  // owned by the context
  need_success(EVP_DigestSignInit(context.get(), &padding, scheme.digest(), nullptr, key_.get()));
  if (scheme.is_pss) {
    need_success(EVP_PKEY_CTX_set_rsa_padding(padding, RSA_PKCS1_PSS_PADDING));
    need_success(EVP_PKEY_CTX_set_rsa_pss_saltlen(padding, RSA_PSS_SALTLEN_DIGEST));
  }
  std::string made(static_cast<std::size_t>(EVP_PKEY_get_size(key_.get())), '\0');
  std::size_t size = made.size();
  need_success(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(made.data()), &size, bytes_of(input),
                              input.size()));
  made.resize(size);
  const Curve* const curve = curve_of(kind_);
  if (curve == nullptr) return made;
  // RFC 7518, 3.4: r and s, each as long as the curve's order, instead of DER.
  const unsigned char* der = bytes_of(made);
  const EcdsaSignature numbers(need(d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(made.size()))));
  std::string halves(2 * curve->bytes, '\0');
  auto* const r = reinterpret_cast<unsigned char*>(halves.data());
  const auto half = static_cast<int>(curve->bytes);
  need_success(BN_bn2binpad(ECDSA_SIG_get0_r(numbers.get()), r, half));
  need_success(BN_bn2binpad(ECDSA_SIG_get0_s(numbers.get()), r + half, half));
  return halves;
}

}  // namespace sluice::gateway::jwt
