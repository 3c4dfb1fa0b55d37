#include "gateway/jwt/keys.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <unistd.h>

#include "gateway/jwt/base64url.h"
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
  static const Key::Made key = Key::from_p256(decoded(rfc_x), decoded(rfc_y));
  return key;
}

TEST(Keys, TheExamplesOfRfc7515) {
  const auto secret_key = Key::from_secret(decoded(rfc_secret));
  ASSERT_TRUE(secret_key && rsa() && p256()) << wrong_with(rsa()) << wrong_with(p256());
  EXPECT_EQ((*secret_key)->algorithm(), Algorithm::hs256);
  EXPECT_EQ((*rsa())->algorithm(), Algorithm::rs256);
  EXPECT_EQ((*p256())->algorithm(), Algorithm::es256);
  EXPECT_TRUE(verifies(secret_key, rfc_hs256));
  EXPECT_TRUE(verifies(rsa(), rfc_rs256));
  EXPECT_TRUE(verifies(p256(), rfc_es256));
}

// Also that a check is as good after a failure as before.
TEST(Keys, EveryBitOfASignatureCounts) {
  const std::pair<Key::Made, std::string_view> cases[] = {
      {Key::from_secret(decoded(rfc_secret)), rfc_hs256}, {rsa(), rfc_rs256}, {p256(), rfc_es256}};
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

// RFC 7518, 3.4: r and s as they are, not DER; and r = s = 0 is no signature of everything.
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
}

TEST(Keys, Secrets) {
  EXPECT_EQ(wrong_with(Key::from_secret(std::string(31, 'x'))), "the secret has 31 bytes; HS256 needs 32");
  EXPECT_TRUE(Key::from_secret(std::string(32, 'x')));
  EXPECT_TRUE(Key::from_secret(std::string(32, '\0')));
  EXPECT_TRUE(Key::from_secret(std::string(500, 'x')));
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
            "the RSA key has 1024 bits; RS256 needs 2048");
  EXPECT_EQ(wrong_with(Key::from_pem(make_pair("EC", "P-384").public_pem)),
            "the EC key is not on P-256, which ES256 needs");
  EXPECT_EQ(wrong_with(Key::from_pem(make_pair("EC", "secp256k1").public_pem)),
            "the EC key is not on P-256, which ES256 needs");
  EXPECT_EQ(wrong_with(Key::from_pem(make_pair("ED25519").public_pem)),
            "the key is neither RSA (RS256) nor EC on P-256 (ES256)");
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
  EXPECT_FALSE(Key::from_p256(off, decoded(rfc_y)));
  EXPECT_FALSE(Key::from_p256(std::string(32, '\0'), std::string(32, '\0')));
  EXPECT_FALSE(Key::from_p256(decoded(rfc_x) + "x", decoded(rfc_y)));
  EXPECT_FALSE(Key::from_p256(decoded(rfc_x).substr(1), decoded(rfc_y)));
}

const std::string rsa_jwk = R"("kty":"RSA","n":")" + std::string(rfc_n) + R"(","e":"AQAB")";
const std::string ec_jwk =
    R"("kty":"EC","crv":"P-256","x":")" + std::string(rfc_x) + R"(","y":")" + std::string(rfc_y) + "\"";
const std::string oct_jwk = R"("kty":"oct","k":")" + std::string(rfc_secret) + "\"";

std::string set_of(std::initializer_list<std::string> keys) {
  std::string json;
  for (const std::string& key : keys) json += (json.empty() ? "{" : ",{") + key + "}";
  return "{\"keys\":[" + json + "]}";
}

TEST(Jwks, KeysWithTheirAlgorithms) {
  const auto set = parse_jwks(set_of({rsa_jwk + R"(,"kid":"r","use":"sig","alg":"RS256")", ec_jwk + R"(,"kid":"e")",
                                      oct_jwk + R"(,"key_ops":["sign","verify"])", ec_jwk + R"(,"kid":"r")"}));
  ASSERT_TRUE(set) << set.error();
  ASSERT_EQ(set->keys.size(), 4u);
  EXPECT_TRUE(set->warnings.empty());
  EXPECT_EQ(set->keys[0]->algorithm(), Algorithm::rs256);
  EXPECT_EQ(set->keys[0]->id(), "r");
  EXPECT_EQ(set->keys[1]->algorithm(), Algorithm::es256);
  EXPECT_EQ(set->keys[2]->algorithm(), Algorithm::hs256);
  EXPECT_EQ(set->keys[2]->id(), std::nullopt);
  EXPECT_TRUE(verifies(set->keys[0], rfc_rs256));
  EXPECT_TRUE(verifies(set->keys[1], rfc_es256));
  EXPECT_TRUE(verifies(set->keys[2], rfc_hs256));
}

TEST(Jwks, WhatIsLeftOut) {
  const auto set = parse_jwks(set_of(
      {ec_jwk, R"("kty":"OKP","crv":"Ed25519","x":"AA","kid":"o")", R"("kty":"EC","crv":"P-384","x":"AA","y":"AA")",
       rsa_jwk + R"(,"use":"enc")", rsa_jwk + R"(,"alg":"PS256")", rsa_jwk + R"(,"alg":"HS256")",
       rsa_jwk + R"(,"alg":null)", rsa_jwk + R"(,"key_ops":["encrypt"])", R"("kty":"oct2")", ""}));
  ASSERT_TRUE(set) << set.error();
  EXPECT_EQ(set->keys.size(), 1u);
  EXPECT_EQ(set->warnings.size(), 9u);
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
  EXPECT_EQ(wrong("{\"keys\":[]}"), "it has no key for HS256, RS256 or ES256");
  EXPECT_EQ(wrong(set_of({rsa_jwk + R"(,"use":"enc")"})), "it has no key for HS256, RS256 or ES256");
  EXPECT_EQ(wrong("{\"keys\":[1]}"), "key 1 is no JSON object");
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
  EXPECT_NE(load_keys(options).error().text.find("larger than 1 MiB"), std::string::npos);

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
