#include "gateway/jwt/signing_key.h"

#include <string>

#include <gtest/gtest.h>

#include "base/base64url.h"
#include "gateway/jwt/keys.h"
#include "gateway/jwt/token.h"

namespace sluice::gateway::jwt {
namespace {

Key::Made verifying_key(const SigningKey& key) {
  std::string text = key.text();
  if (key.kind() != Key::Kind::secret) return Key::from_pem(key.public_pem());
  text.pop_back();  // the line break
  return Key::from_secret(text);
}

TEST(SigningKey, SignsWithEveryAlgorithmAsKeysVerify) {
  const std::string rsa = SigningKey::generate(Algorithm::rs256).text();  // takes long, so only one is made
  for (const auto& [name, algorithm] : algorithms) {
    SCOPED_TRACE(name);
    const bool is_rsa = name.starts_with("RS") || name.starts_with("PS");
    const std::string file = is_rsa ? rsa : SigningKey::generate(algorithm).text();
    const auto key = SigningKey::parse(file);
    ASSERT_TRUE(key.has_value());
    EXPECT_EQ(key->text(), file);
    EXPECT_EQ(key->check(algorithm), "");
    const std::string token = key->sign(algorithm, "the \"key\"", R"({"sub":"ada"})");
    const auto parts = split(token);
    ASSERT_TRUE(parts.has_value());
    const auto header = HeaderReader().read(parts->header);
    ASSERT_TRUE(header.has_value());
    EXPECT_EQ(header->algorithm, algorithm);
    EXPECT_EQ(header->key_id, "the \"key\"");
    const auto verifying = verifying_key(*key);
    ASSERT_TRUE(verifying.has_value()) << verifying.error();
    std::string signature;
    ASSERT_TRUE(decode_base64url(parts->signature, signature));
    SignatureCheck check(*(*verifying)->with(algorithm));
    EXPECT_TRUE(check.verify(parts->signing_input, signature));
    EXPECT_FALSE(check.verify("other", signature));
    if (key->kind() == Key::Kind::secret) continue;
    const auto set = parse_jwks("{\"keys\":[{" + key->members() + "}]}", {algorithm});
    ASSERT_TRUE(set.has_value()) << set.error();
    EXPECT_TRUE(SignatureCheck(set->keys.front()).verify(parts->signing_input, signature));
  }
}

// RFC 8037, A.1 to A.4.
TEST(SigningKey, IsTheExampleOfTheRfc) {
  const auto key = SigningKey::parse(
      "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
      "-----END PRIVATE KEY-----\n");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->default_algorithm(), Algorithm::eddsa);
  EXPECT_EQ(key->members(), R"("crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")");
  EXPECT_EQ(key->short_thumbprint(), "90facafea9b15566");
}

TEST(SigningKey, KnowsWhatFits) {
  const SigningKey p384 = SigningKey::generate(Algorithm::es384);
  EXPECT_EQ(p384.default_algorithm(), Algorithm::es384);
  EXPECT_EQ(p384.check(Algorithm::es256), "the key is not for ES256, but for ES384");
  EXPECT_EQ(p384.check(Algorithm::hs256), "the key is not for HS256, but for ES384");
  const auto secret = SigningKey::parse("0123456789abcdef0123456789abcdef\r\n");
  ASSERT_TRUE(secret.has_value());
  EXPECT_EQ(secret->default_algorithm(), Algorithm::hs256);
  EXPECT_EQ(secret->check(Algorithm::hs256), "");
  EXPECT_EQ(secret->check(Algorithm::hs384), "the secret has 32 bytes; HS384 needs 48");
  EXPECT_EQ(secret->check(Algorithm::rs256), "the key is not for RS256, but for HS256, HS384, HS512");
  EXPECT_FALSE(SigningKey::parse(p384.public_pem()).has_value());
  EXPECT_FALSE(SigningKey::parse("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").has_value());
}

}  // namespace
}  // namespace sluice::gateway::jwt
