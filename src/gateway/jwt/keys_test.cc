#include "gateway/jwt/keys.h"

#include <filesystem>
#include <fstream>
#include <tuple>

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <unistd.h>

#include "base/base64url.h"
#include "gateway/jwt/tokens_for_tests.h"

namespace sluice::gateway::jwt {
namespace {

using namespace for_tests;

struct Pair {
  std::string public_pem;
  std::string private_pem;
};

template <class... Arguments>
Pair make_pair(const char* type, Arguments... arguments) {
  EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, type, arguments...);
  const auto text = [&](auto write) {
    BIO* bio = BIO_new(BIO_s_mem());
    write(bio);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string pem(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return pem;
  };
  Pair pair{text([&](BIO* bio) { PEM_write_bio_PUBKEY(bio, key); }),
            text([&](BIO* bio) { PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); })};
  EVP_PKEY_free(key);
  return pair;
}

std::string wrong_with(const Key::Made& made) { return made ? "" : made.error(); }

bool verifies(const Key::Made& key, std::string_view token) {
  if (!key) return false;
  const auto parts = split(token);
  return SignatureCheck(*key).verify(parts->signing_input, decoded(parts->signature));
}

const Key::Made& rsa() {
  static const Key::Made key = Key::from_rsa(decoded(rfc_n), decoded("AQAB"));
  return key;
}
const Key::Made& p256() {
  static const Key::Made key = Key::from_ec(Key::Kind::p256, decoded(rfc_x), decoded(rfc_y));
  return key;
}
const Key::Made& p521() {
  static const Key::Made key = Key::from_ec(Key::Kind::p521, decoded(rfc_p521_x), decoded(rfc_p521_y));
  return key;
}
const Key::Made& ed25519() {
  static const Key::Made key = Key::from_ed25519(decoded(rfc_ed25519_x));
  return key;
}

TEST(Keys, TheExamplesOfTheRfcs) {
  const auto secret_key = Key::from_secret(decoded(rfc_secret));
  const std::tuple<Key::Made, Algorithm, std::string_view> cases[] = {{secret_key, Algorithm::hs256, rfc_hs256},
                                                                      {rsa(), Algorithm::rs256, rfc_rs256},
                                                                      {p256(), Algorithm::es256, rfc_es256},
                                                                      {p521(), Algorithm::es512, rfc_es512},
                                                                      {ed25519(), Algorithm::eddsa, rfc_eddsa}};
  for (const auto& [key, algorithm, token] : cases) {
    ASSERT_TRUE(key) << wrong_with(key);
    EXPECT_EQ((*key)->algorithm(), algorithm);
    EXPECT_TRUE(verifies(key, token)) << name_of(algorithm);
  }
}

// The signature of `input` by a PEM private key, in the format of JWS.
std::string signature_of(const std::string& pem, Algorithm algorithm, const std::string& input, int salt = -1) {
  BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  const std::string_view name = name_of(algorithm);
  const EVP_MD* digest = name.ends_with("256")   ? EVP_sha256()
                         : name.ends_with("384") ? EVP_sha384()
                         : name.ends_with("512") ? EVP_sha512()
                                                 : nullptr;
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_PKEY_CTX* options = nullptr;
  EVP_DigestSignInit(context, &options, digest, nullptr, key);
  if (name.starts_with("PS")) {
    EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING);
    EVP_PKEY_CTX_set_rsa_pss_saltlen(options, salt);
  }
  const auto* const data = reinterpret_cast<const unsigned char*>(input.data());
  unsigned char made[1024];
  std::size_t size = sizeof made;
  EXPECT_EQ(EVP_DigestSign(context, made, &size, data, input.size()), 1) << name;
  if (name.starts_with("ES")) {
    const int half = (EVP_PKEY_get_bits(key) + 7) / 8;
    const unsigned char* der = made;
    ECDSA_SIG* numbers = d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(size));
    BN_bn2binpad(ECDSA_SIG_get0_r(numbers), made, half);
    BN_bn2binpad(ECDSA_SIG_get0_s(numbers), made + half, half);
    ECDSA_SIG_free(numbers);
    size = 2 * static_cast<std::size_t>(half);
  }
  EVP_MD_CTX_free(context);
  EVP_PKEY_free(key);
  return {reinterpret_cast<const char*>(made), size};
}

// A signature of one algorithm is not valid for another, even with the same key.
TEST(Keys, EveryAlgorithmForItself) {
  const std::pair<Pair, std::vector<Algorithm>> pairs[] = {
      {make_pair("RSA", std::size_t{2048}),
       {Algorithm::rs256, Algorithm::rs384, Algorithm::rs512, Algorithm::ps256, Algorithm::ps384, Algorithm::ps512}},
      {make_pair("EC", "P-256"), {Algorithm::es256}},
      {make_pair("EC", "P-384"), {Algorithm::es384}},
      {make_pair("EC", "P-521"), {Algorithm::es512}},
      {make_pair("ED25519"), {Algorithm::eddsa}}};
  for (const auto& [pair, fitting] : pairs) {
    const auto key = Key::from_pem(pair.public_pem);
    ASSERT_TRUE(key) << wrong_with(key);
    EXPECT_EQ((*key)->algorithm(), fitting.front()) << "without being told otherwise";
    for (const Algorithm signs : fitting) {
      const std::string signature = signature_of(pair.private_pem, signs, "input");
      for (const Algorithm verifies : fitting) {
        SignatureCheck check(*(*key)->with(verifies));
        EXPECT_EQ(check.verify("input", signature), signs == verifies) << name_of(signs) << " " << name_of(verifies);
      }
    }
  }
  const std::string secret(64, 's');
  const std::pair<Algorithm, const EVP_MD*> hashes[] = {
      {Algorithm::hs256, EVP_sha256()}, {Algorithm::hs384, EVP_sha384()}, {Algorithm::hs512, EVP_sha512()}};
  for (const auto& [signs, hash] : hashes) {
    const std::string signature = hmac(secret, "input", hash);
    for (const auto& [verifies, other] : hashes) {
      SignatureCheck check(*(*Key::from_secret(secret))->with(verifies));
      EXPECT_EQ(check.verify("input", signature), signs == verifies) << name_of(signs) << " " << name_of(verifies);
    }
  }
}

// RFC 7518, 3.5.
TEST(Keys, TheSaltIsAsLongAsTheHash) {
  const Pair pair = make_pair("RSA", std::size_t{2048});
  SignatureCheck check(*(*Key::from_pem(pair.public_pem))->with(Algorithm::ps384));
  for (const int salt : {0, 32, 47, 48, 49, 64}) {
    EXPECT_EQ(check.verify("input", signature_of(pair.private_pem, Algorithm::ps384, "input", salt)), salt == 48)
        << salt;
  }
}

// Also tests that a check still works after a failure.
TEST(Keys, EveryBitOfASignatureCounts) {
  const Pair pair = make_pair("RSA", std::size_t{2048});
  const std::string ps256_token = "a.b." + encode_base64url(signature_of(pair.private_pem, Algorithm::ps256, "a.b"));
  const std::pair<Key::Made, std::string_view> cases[] = {
      {Key::from_secret(decoded(rfc_secret)), rfc_hs256},
      {rsa(), rfc_rs256},
      {(*Key::from_pem(pair.public_pem))->with(Algorithm::ps256), ps256_token},
      {p256(), rfc_es256},
      {p521(), rfc_es512},
      {ed25519(), rfc_eddsa}};
  for (const auto& [key, token] : cases) {
    SignatureCheck check(*key);
    const auto parts = split(token);
    const std::string input(parts->signing_input);
    const std::string good = decoded(parts->signature);
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
      EXPECT_FALSE(check.verify(input, bad)) << i;
    }
    for (const std::string& bad : {std::string(), good.substr(1), good.substr(0, good.size() - 1), good + '\0',
                                   '\0' + good, std::string(good.size(), '\0'), std::string(good.size(), '\xff')}) {
      EXPECT_FALSE(check.verify(input, bad));
    }
    EXPECT_FALSE(check.verify(input + "x", good));
    EXPECT_FALSE(check.verify("", good));
    EXPECT_TRUE(check.verify(input, good));
  }
}

// RFC 7518, 3.4: r and s are not in DER. r = s = 0 must not be valid for every message.
TEST(Keys, EcdsaSignatures) {
  SignatureCheck check(*p256());
  const auto parts = split(rfc_es256);
  const std::string good = decoded(parts->signature);
  const auto integer = [](std::string bytes) {
    if (static_cast<unsigned char>(bytes[0]) >= 0x80) bytes.insert(0, 1, '\0');
    return std::string("\x02") + static_cast<char>(bytes.size()) + bytes;
  };
  const std::string both = integer(good.substr(0, 32)) + integer(good.substr(32));
  EXPECT_FALSE(check.verify(parts->signing_input, std::string("\x30") + static_cast<char>(both.size()) + both));
  EXPECT_FALSE(check.verify(parts->signing_input, std::string(32, '\0') + good.substr(32)));
  EXPECT_FALSE(check.verify(parts->signing_input, good.substr(0, 32) + std::string(32, '\0')));
  const std::string order = decoded("_____wAAAAD__________7zm-q2nF56E87nKwvxjJVE");
  EXPECT_FALSE(check.verify(parts->signing_input, order + order));
  EXPECT_FALSE(check.verify(parts->signing_input, good.substr(32) + good.substr(0, 32)));
  SignatureCheck large(*p521());
  EXPECT_FALSE(large.verify(parts->signing_input, std::string(132, '\xff'))) << "the longest DER";
}

TEST(Keys, Secrets) {
  EXPECT_EQ(wrong_with(Key::from_secret(std::string(31, 'x'))), "the secret has 31 bytes; HS256 needs 32");
  EXPECT_TRUE(Key::from_secret(std::string(32, 'x')));
  EXPECT_TRUE(Key::from_secret(std::string(32, '\0')));
  EXPECT_TRUE(Key::from_secret(std::string(500, 'x')));
  const auto longer = Key::from_secret(std::string(48, 'x'));
  EXPECT_TRUE((*longer)->with(Algorithm::hs384));
  EXPECT_EQ(wrong_with((*longer)->with(Algorithm::hs512)), "the secret has 48 bytes; HS512 needs 64");
  const Pair pair = make_pair("RSA", std::size_t{2048});
  for (const std::string& pem : {pair.public_pem, pair.private_pem}) {
    EXPECT_EQ(wrong_with(Key::from_secret(pem)), "the secret is a PEM key; a public key belongs into \"public_key\"");
  }
}

TEST(Keys, Pem) {
  const Pair pair = make_pair("RSA", std::size_t{2048});
  const auto key = Key::from_pem(pair.public_pem);
  ASSERT_TRUE(key);
  EXPECT_EQ((*key)->algorithm(), Algorithm::rs256);
  EXPECT_EQ((*Key::from_pem(make_pair("EC", "P-256").public_pem))->algorithm(), Algorithm::es256);
  EXPECT_EQ(wrong_with(Key::from_pem(make_pair("RSA", std::size_t{1024}).public_pem)),
            "the RSA key has 1024 bits; 2048 are needed");
  EXPECT_EQ(wrong_with(Key::from_pem(make_pair("EC", "secp256k1").public_pem)),
            "the EC key is not on P-256, P-384 or P-521");
  EXPECT_EQ(wrong_with(Key::from_pem(make_pair("ED448").public_pem)), "the key is neither RSA, EC nor Ed25519");
  EXPECT_EQ(wrong_with(Key::from_pem(make_pair("X25519").public_pem)), "the key is neither RSA, EC nor Ed25519");
  EXPECT_NE(wrong_with(Key::from_pem(pair.private_pem)).find("private key"), std::string::npos);
  for (const std::string& none : {std::string(), std::string("secret"), pair.public_pem.substr(0, 200),
                                  std::string("-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n")}) {
    EXPECT_NE(wrong_with(Key::from_pem(none)).find("no PEM public key"), std::string::npos) << none;
  }
}

TEST(Keys, NumbersThatAreNoKey) {
  const std::string n = decoded(rfc_n);
  EXPECT_FALSE(Key::from_rsa("", "\x03"));
  EXPECT_FALSE(Key::from_rsa(n, ""));
  EXPECT_FALSE(Key::from_rsa(n, std::string(1, '\0')));
  EXPECT_FALSE(Key::from_rsa(n, "\x01"));
  EXPECT_FALSE(Key::from_rsa(n, "\x04"));
  EXPECT_FALSE(Key::from_rsa(n.substr(128), "\x03")) << "1024 bits";
  EXPECT_FALSE(Key::from_rsa(std::string(128, '\0') + n.substr(128), "\x03")) << "zeros are no bits";
  EXPECT_FALSE(Key::from_rsa(std::string(1025, '\xff'), "\x03")) << "8200 bits";
  std::string even = n;
  even.back() = '\x02';
  EXPECT_FALSE(Key::from_rsa(even, decoded("AQAB")));
  std::string off = decoded(rfc_x);
  off[5] = static_cast<char>(off[5] ^ 1);
  const auto ec = [](const std::string& x, const std::string& y) { return Key::from_ec(Key::Kind::p256, x, y); };
  EXPECT_FALSE(ec(off, decoded(rfc_y)));
  EXPECT_FALSE(ec(std::string(32, '\0'), std::string(32, '\0')));
  EXPECT_FALSE(ec(decoded(rfc_x) + "x", decoded(rfc_y)));
  EXPECT_FALSE(ec(decoded(rfc_x).substr(1), decoded(rfc_y)));
  EXPECT_FALSE(Key::from_ec(Key::Kind::p521, decoded(rfc_x), decoded(rfc_y)));
  EXPECT_FALSE(Key::from_ed25519(decoded(rfc_ed25519_x).substr(1)));
  EXPECT_FALSE(Key::from_ed25519(decoded(rfc_ed25519_x) + "x"));
  // Points of a small order, with either sign, and numbers beyond the field's prime.
  for (const char* x : {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                        "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA", "JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_AU",
                        "xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA3o", "xxdqcD1N2E-6PAt2DRBnDyogU_osOczGTsf9d5KsA_o",
                        "7P_______________________________________38", "7f_______________________________________38",
                        "7v_______________________________________38"}) {
    ASSERT_EQ(decoded(x).size(), 32U) << x;
    EXPECT_EQ(Key::from_ed25519(decoded(x)).error(), "anybody can sign for this Ed25519 key") << x;
  }
}

const std::string rsa_jwk = R"("kty":"RSA","n":")" + std::string(rfc_n) + R"(","e":"AQAB")";
const std::string ec_jwk =
    R"("kty":"EC","crv":"P-256","x":")" + std::string(rfc_x) + R"(","y":")" + std::string(rfc_y) + "\"";
const std::string p521_jwk =
    R"("kty":"EC","crv":"P-521","x":")" + std::string(rfc_p521_x) + R"(","y":")" + std::string(rfc_p521_y) + "\"";
const std::string okp_jwk = R"("kty":"OKP","crv":"Ed25519","x":")" + std::string(rfc_ed25519_x) + "\"";
const std::string oct_jwk = R"("kty":"oct","k":")" + std::string(rfc_secret) + "\"";

std::string set_of(std::initializer_list<std::string> keys) {
  std::string json;
  for (const std::string& key : keys) json += (json.empty() ? "{" : ",{") + key + "}";
  return "{\"keys\":[" + json + "]}";
}

TEST(Jwks, KeysWithTheirAlgorithms) {
  const auto set = parse_jwks(set_of({rsa_jwk + R"(,"kid":"r","use":"sig","alg":"RS256")", ec_jwk + R"(,"kid":"e")",
                                      oct_jwk + R"(,"key_ops":["sign","verify"])", ec_jwk + R"(,"kid":"r")",
                                      p521_jwk + R"(,"kid":"r","alg":"ES512")", okp_jwk + R"(,"alg":"EdDSA")"}));
  ASSERT_TRUE(set) << set.error();
  ASSERT_EQ(set->keys.size(), 6u);
  EXPECT_TRUE(set->warnings.empty());
  EXPECT_EQ(set->keys[0]->algorithm(), Algorithm::rs256);
  EXPECT_EQ(set->keys[0]->id(), "r");
  EXPECT_EQ(set->keys[1]->algorithm(), Algorithm::es256);
  EXPECT_EQ(set->keys[2]->algorithm(), Algorithm::hs256);
  EXPECT_EQ(set->keys[2]->id(), std::nullopt);
  EXPECT_TRUE(verifies(set->keys[0], rfc_rs256));
  EXPECT_TRUE(verifies(set->keys[1], rfc_es256));
  EXPECT_TRUE(verifies(set->keys[2], rfc_hs256));
  EXPECT_TRUE(verifies(set->keys[4], rfc_es512));
  EXPECT_TRUE(verifies(set->keys[5], rfc_eddsa));
}

// The algorithms of the keys with their ids, or the error.
std::string algorithms_of(const std::string& json, const std::vector<Algorithm>& accepted = {}) {
  const auto set = parse_jwks(json, accepted);
  if (!set) return set.error();
  std::string all;
  for (const auto& key : set->keys) all += std::string(name_of(key->algorithm())) + key->id().value_or("") + " ";
  return all;
}

TEST(Jwks, AcceptedAlgorithms) {
  const std::string named = rsa_jwk + R"(,"kid":"n","alg":"PS384")";
  const std::string both = set_of({rsa_jwk + R"(,"kid":"r")", named, ec_jwk});
  EXPECT_EQ(algorithms_of(both), "RS256r PS384n ES256 ");
  EXPECT_EQ(algorithms_of(both, {Algorithm::ps384, Algorithm::rs512, Algorithm::ps384}), "RS512r PS384r PS384n ");
  EXPECT_EQ(algorithms_of(both, {Algorithm::es256}), "ES256 ");
  EXPECT_EQ(parse_jwks(both, {Algorithm::es256})->warnings[1],
            "key 2 (\"n\") is left out: none of \"algorithms\" is for it");
  EXPECT_EQ(algorithms_of(both, {Algorithm::hs256}), "it has no key to verify tokens with");
  EXPECT_EQ(algorithms_of(set_of({rsa_jwk, rsa_jwk + R"(,"alg":"PS256")"})), "RS256 PS256 ");
  EXPECT_EQ(algorithms_of(set_of({rsa_jwk, rsa_jwk + R"(,"alg":"PS256")"}), {Algorithm::rs256, Algorithm::ps256}),
            "key 2: another key for PS256 has no \"kid\" either");
  EXPECT_EQ(algorithms_of(set_of({oct_jwk + R"(,"alg":"HS512")"})), "HS512 ");
  EXPECT_EQ(algorithms_of(set_of({R"("kty":"oct","alg":"HS512","k":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY")"})),
            "key 1: the secret has 32 bytes; HS512 needs 64");
}

TEST(Jwks, WhatIsLeftOut) {
  const auto set = parse_jwks(set_of(
      {ec_jwk, R"("kty":"OKP","crv":"Ed448","x":"AA","kid":"o")", R"("kty":"EC","crv":"secp256k1","x":"AA","y":"AA")",
       rsa_jwk + R"(,"use":"enc")", rsa_jwk + R"(,"alg":"RSA-OAEP")", rsa_jwk + R"(,"alg":"HS256")",
       rsa_jwk + R"(,"alg":null)", rsa_jwk + R"(,"key_ops":["encrypt"])", R"("kty":"oct2")", "",
       ec_jwk + R"(,"alg":"ES384")", oct_jwk + R"(,"alg":"ES256")", okp_jwk + R"(,"alg":"ES256")",
       R"("kty":"EC","crv":"Ed25519","x":"AA")", R"("kty":"OKP","crv":"P-256","x":"AA")"}));
  ASSERT_TRUE(set) << set.error();
  EXPECT_EQ(set->keys.size(), 1u);
  EXPECT_EQ(set->warnings.size(), 14u);
  EXPECT_EQ(set->warnings[0], "key 2 (\"o\") is left out: its type is not supported");
  EXPECT_EQ(set->warnings[3], "key 5 is left out: its \"alg\" is not supported");
}

TEST(Jwks, Errors) {
  const auto wrong = [](const std::string& json) {
    const auto set = parse_jwks(json);
    return set ? std::string() : set.error();
  };
  for (const char* json : {"", "{}", "[]", "null", "{\"keys\":{}}", "{\"keys\":[]", "x"}) {
    EXPECT_EQ(wrong(json), "it is no JWK set: a JSON object with a list \"keys\"") << json;
  }
  EXPECT_EQ(wrong("{\"keys\":[]}"), "it has no key to verify tokens with");
  EXPECT_EQ(wrong(set_of({rsa_jwk + R"(,"use":"enc")"})), "it has no key to verify tokens with");
  EXPECT_EQ(wrong("{\"keys\":[1]}"), "key 1: it is no JSON object");
  EXPECT_EQ(wrong(set_of({ec_jwk + R"(,"kid":7)"})), "key 1: \"kid\" is no string");
  EXPECT_EQ(wrong(set_of({ec_jwk + R"(,"kid":"a")", rsa_jwk + R"(,"kid":"a")", ec_jwk + R"(,"kid":"a")"})),
            "key 3 (\"a\"): another key for ES256 has the same \"kid\"");
  EXPECT_EQ(wrong(set_of({ec_jwk, ec_jwk})), "key 2: another key for ES256 has no \"kid\" either");
  EXPECT_EQ(wrong(set_of({R"("kty":"oct","k":"c2hvcnQ","kid":"s")"})),
            "key 1 (\"s\"): the secret has 5 bytes; HS256 needs 32");
  EXPECT_EQ(wrong(set_of({R"("kty":"oct")"})), "key 1: \"k\" is missing, or not base64url without padding");
  EXPECT_EQ(wrong(set_of({R"("kty":"RSA","n":"AQ==","e":"AQAB")"})),
            "key 1: \"n\" or \"e\" is missing, or not base64url without padding");
  EXPECT_EQ(wrong(set_of({R"("kty":"EC","crv":"P-256","x":"AQ","y":"AQ")"})),
            "key 1: \"x\" and \"y\" of a P-256 key have 32 bytes each");
  EXPECT_EQ(wrong(set_of({R"("kty":"EC","crv":"P-521","x":"AQ","y":"AQ")"})),
            "key 1: \"x\" and \"y\" of a P-521 key have 66 bytes each");
  EXPECT_EQ(wrong(set_of({R"("kty":"OKP","crv":"Ed25519","x":"AQ")"})), "key 1: \"x\" of an Ed25519 key has 32 bytes");
  EXPECT_EQ(wrong(set_of({R"("kty":"OKP","crv":"Ed25519")"})),
            "key 1: \"x\" is missing, or not base64url without padding");
}

// RFC 7517, 5: an unusable key does not make the others unusable.
TEST(Jwks, OfAnIssuer) {
  const std::string json =
      set_of({ec_jwk + R"(,"kid":"a")", oct_jwk, R"("kty":"RSA","n":"AQAB","e":"AQAB","kid":"weak")",
              R"("kty":"EC","crv":"P-256","x":"AQ","y":"AQ")", ec_jwk + R"(,"kid":"a")", ec_jwk + R"(,"kid":7)",
              rsa_jwk + R"(,"kid":"b")"});
  EXPECT_EQ(parse_jwks(json).error(), "key 3 (\"weak\"): the RSA key has 17 bits; 2048 are needed");
  const auto set = parse_jwks(json, {}, Provenance::issuer);
  ASSERT_TRUE(set) << set.error();
  ASSERT_EQ(set->keys.size(), 2u);
  EXPECT_EQ(set->keys[0]->id(), "a");
  EXPECT_EQ(set->keys[1]->id(), "b");
  ASSERT_EQ(set->warnings.size(), 5u);
  EXPECT_EQ(set->warnings[0], "key 2 is left out: an issuer must not publish a secret");
  EXPECT_EQ(parse_jwks(set_of({oct_jwk}), {}, Provenance::issuer).error(), "it has no key to verify tokens with");
}

class KeyFiles : public testing::Test {
 protected:
  KeyFiles() : folder_(std::filesystem::temp_directory_path() / ("sluice-keys-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~KeyFiles() override { std::filesystem::remove_all(folder_); }

  Located<std::string> write(const std::string& text) {
    std::ofstream(folder_ / "key") << text;
    return {folder_ / "key", {7, 3}};
  }

  std::filesystem::path folder_;
};

TEST_F(KeyFiles, ASecretsLastLineBreakIsNotPartOfIt) {
  for (const std::string& end : {"", "\n", "\r\n"}) {
    Options options;
    options.secret_file = write(std::string(secret) + end);
    const auto keys = load_keys(options);
    ASSERT_TRUE(keys);
    EXPECT_TRUE(verifies((*keys)->keys[0], token_of("{}")));
  }
}

TEST_F(KeyFiles, OneKeyForSeveralAlgorithms) {
  Options options;
  options.secret = Located<std::string>(std::string(64, 's'));
  options.algorithms = {Algorithm::hs512, Algorithm::rs256, Algorithm::hs256};
  auto keys = load_keys(options);
  ASSERT_TRUE(keys);
  ASSERT_EQ((*keys)->keys.size(), 2u);
  EXPECT_EQ((*keys)->keys[0]->algorithm(), Algorithm::hs256);
  EXPECT_EQ((*keys)->keys[1]->algorithm(), Algorithm::hs512);
  options.algorithms = {Algorithm::rs256, Algorithm::eddsa};
  EXPECT_EQ(load_keys(options).error().text, "none of \"algorithms\" is for this key");
  options.secret = Located<std::string>(std::string(40, 's'));
  options.algorithms = {Algorithm::hs256, Algorithm::hs384};
  EXPECT_EQ(load_keys(options).error().text, "the secret has 40 bytes; HS384 needs 48");
  options.secret.reset();
  options.public_key = write(make_pair("RSA", std::size_t{2048}).public_pem);
  options.algorithms = {Algorithm::ps256};
  keys = load_keys(options);
  ASSERT_TRUE(keys);
  ASSERT_EQ((*keys)->keys.size(), 1u);
  EXPECT_EQ((*keys)->keys[0]->algorithm(), Algorithm::ps256);
}

TEST_F(KeyFiles, ProblemsNameTheKeyOfTheConfiguration) {
  Options options;
  options.position = {3, 1};
  options.public_key = Located<std::string>(folder_ / "none", {4, 5});
  auto keys = load_keys(options);
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().position, (Position{4, 5}));
  EXPECT_EQ(keys.error().text, "the file cannot be read: No such file or directory");

  options.public_key = write("no key");
  keys = load_keys(options);
  EXPECT_EQ(keys.error().position, (Position{7, 3}));
  EXPECT_NE(keys.error().text.find("no PEM public key"), std::string::npos);

  options.public_key = Located<std::string>(folder_, {4, 5});
  EXPECT_NE(load_keys(options).error().text.find("Is a directory"), std::string::npos);
  options.public_key = write(std::string((1 << 20) + 1, 'x'));
  EXPECT_NE(load_keys(options).error().text.find("larger than 1048576 bytes"), std::string::npos);

  options.public_key.reset();
  options.jwks = write("{\"keys\":[]}");
  EXPECT_NE(load_keys(options).error().text.find("it has no key"), std::string::npos);

  options.jwks.reset();
  options.secret = Located<std::string>("hunter2", {4, 5});
  keys = load_keys(options);
  EXPECT_EQ(keys.error().position, (Position{3, 1})) << "an error shows its line, and there is the secret";
  EXPECT_EQ(keys.error().text.find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace sluice::gateway::jwt
