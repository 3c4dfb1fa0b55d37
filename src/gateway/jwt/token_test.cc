#include "gateway/jwt/token.h"

#include <set>

#include <gtest/gtest.h>

#include "base/base64url.h"

namespace sluice::gateway::jwt {
namespace {

TEST(Token, Split) {
  const std::string token = "aa.bbb.cccc";
  const auto parts = split(token);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->header, "aa");
  EXPECT_EQ(parts->payload, "bbb");
  EXPECT_EQ(parts->signature, "cccc");
  EXPECT_EQ(parts->signing_input, "aa.bbb");
  // Also the five parts of a JWE, and an empty signature.
  for (const char* wrong :
       {"", ".", "..", "...", "a", "a.b", "a.b.", "a..c", ".b.c", "a.b.c.", "a.b.c.d", "a.b.c.d.e"}) {
    EXPECT_FALSE(split(wrong)) << wrong;
  }
}

std::string read(const std::string& json) {
  HeaderReader reader;
  const auto header = reader.read(encode_base64url(json));
  if (!header) return std::string(name_of(header.error()));
  return std::string(name_of(header->algorithm)) + (header->key_id ? " " + *header->key_id : "");
}

TEST(Header, Read) {
  EXPECT_EQ(read(R"({"alg":"HS256"})"), "HS256");
  EXPECT_EQ(read(R"( { "typ" : "JWT", "alg" : "RS256", "kid" : "k\u0041" } )"), "RS256 kA");
  EXPECT_EQ(read(R"({"alg":"ES256","kid":"","x5u":"https://evil.example","jwk":{"kty":"oct","k":"AA"}})"), "ES256 ");
  EXPECT_EQ(read(R"({"alg":"HS256","b64":true})"), "HS256");
}

TEST(Header, EveryAlgorithm) {
  for (const auto& [name, algorithm] : algorithms) {
    EXPECT_EQ(name_of(algorithm), name);
    EXPECT_EQ(read(R"({"alg":")" + std::string(name) + "\"}"), name);
  }
  EXPECT_EQ(std::size(algorithms), 13u);
}

TEST(Header, Refused) {
  for (const char* algorithm : {"none", "None", "NONE", "nOnE", "hs256", "HS256 ", "HS224", "RS1", "ES256K", "EDDSA",
                                "Ed448", "RSA-OAEP", "dir"}) {
    EXPECT_EQ(read(R"({"alg":")" + std::string(algorithm) + "\"}"), "algorithm") << algorithm;
  }
  for (const char* header :
       {"", "{}", "null", "[]", "\"HS256\"", R"({"alg":""})", R"({"alg":null})", R"({"alg":["HS256"]})", R"({"alg":1})",
        R"({"alg":"HS256","alg":"HS256"})", R"({"alg":"HS256","\u0061lg":"RS256"})", R"({"alg":"HS256","x":1,"x":1})",
        R"({"alg":"HS256","kid":1})", R"({"alg":"HS256","kid":null})", R"({"alg":"HS256","b64":0})",
        R"({"alg":"HS256"}x)", R"({"alg":"HS256",})", "{\"alg\":\"HS256\",\"kid\":\"\xff\"}"}) {
    EXPECT_EQ(read(header), "malformed") << header;
  }
  EXPECT_EQ(read(R"({"alg":"HS256","crit":["exp"],"exp":1})"), "unsupported");
  EXPECT_EQ(read(R"({"alg":"HS256","crit":[]})"), "unsupported");
  EXPECT_EQ(read(R"({"alg":"none","crit":null})"), "unsupported");
  EXPECT_EQ(read(R"({"alg":"HS256","b64":false})"), "unsupported");
  EXPECT_EQ(read(R"({"alg":"HS256","b64":false,"crit":["b64"]})"), "unsupported");
  EXPECT_EQ(read(R"({"alg":"HS256","x":")" + std::string(5000, 'x') + "\"}"), "malformed");
  EXPECT_EQ(read(R"({"alg":"HS256","x":)" + std::string(1500, '[') + std::string(1500, ']') + "}"), "malformed");
  HeaderReader reader;
  EXPECT_EQ(reader.read("eyJhbGciOiJIUzI1NiJ9=").error(), Refusal::malformed);
  EXPECT_TRUE(reader.read("eyJhbGciOiJIUzI1NiJ9"));
}

TEST(Refusals, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < refusal_count; ++i) names.insert(name_of(static_cast<Refusal>(i)));
  EXPECT_EQ(names.size(), refusal_count);
  EXPECT_FALSE(names.contains(""));
  EXPECT_EQ(name_of(Refusal::away), "away");
  EXPECT_EQ(static_cast<std::size_t>(Refusal::away) + 1, refusal_count);
}

}  // namespace
}  // namespace sluice::gateway::jwt
