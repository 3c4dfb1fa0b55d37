#include "gateway/jwt/key_source.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::gateway::jwt {
namespace {

TEST(KeyUrl, Parts) {
  const auto url = KeyUrl::parse("https://issuer.example/.well-known/jwks.json");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->origin.host, "issuer.example");
  EXPECT_EQ(url->origin.port, 443);
  EXPECT_TRUE(url->origin.secure);
  EXPECT_EQ(url->host, "issuer.example");
  EXPECT_EQ(url->target, "/.well-known/jwks.json");
  const auto other = KeyUrl::parse("http://[::1]:8080/keys?p=a/b");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->origin.host, "::1");
  EXPECT_EQ(other->origin.port, 8080);
  EXPECT_FALSE(other->origin.secure);
  EXPECT_EQ(other->host, "[::1]:8080");
  EXPECT_EQ(other->target, "/keys?p=a/b");
  EXPECT_EQ(other->name, "http://[::1]:8080/keys");
}

TEST(KeyUrl, Refused) {
  for (const char* text : {"", "keys.json", "issuer.example/keys", "ftp://a/keys", "unix:/run/keys", "unix:///run/keys",
                           "https://", "https:///keys", "https://a", "https://a?b", "https://a:0/keys",
                           "https://a:x/keys", "https://me@a/keys", "https://a b/keys", "https://a/a b",
                           "https://a/keys#x", "https://a/\x7f", "https://a/\xc3\xa4", "HTTPS://a/keys"}) {
    EXPECT_FALSE(KeyUrl::parse(text)) << text;
  }
}

TEST(KeyUrl, HttpIsForThisMachine) {
  for (const char* text :
       {"https://a/keys", "https://10.0.0.1/keys", "http://127.0.0.1/keys", "http://127.9.9.9:81/keys",
        "http://[::1]:8080/keys", "http://localhost/keys", "http://localhost:8080/keys"}) {
    EXPECT_EQ(Options::check_url(text), "") << text;
  }
  for (const char* text : {"http://a/keys", "http://10.0.0.1/keys", "http://[fe80::1]/keys", "http://0.0.0.0/keys",
                           "http://localhost.example/keys", "http://127.0.0.1.example/keys"}) {
    EXPECT_TRUE(Options::check_url(text).starts_with("must begin with \"https://\"")) << text;
  }
}

TEST(SharedKeySource, OfPoliciesThatWantTheSameSet) {
  Options policy;
  policy.jwks_url = Located<std::string>("http://127.0.0.1/keys");
  const auto source = SharedKeySource::make(policy, 1);
  ASSERT_TRUE(source);
  EXPECT_FALSE((*source)->needs_resolver());
  Options other = policy;
  other.issuer.items = {"a"};
  other.require.emplace_back();
  EXPECT_TRUE((*source)->is_for(other));
  EXPECT_TRUE((*source)->is_same(**SharedKeySource::make(other, 1)));
  const auto differs = [&](auto change) {
    Options changed = policy;
    change(changed);
    return !(*source)->is_for(changed);
  };
  EXPECT_TRUE(differs([](Options& one) { one.jwks_url.reset(); }));
  EXPECT_TRUE(differs([](Options& one) { one.jwks_url->value += "2"; }));
  EXPECT_TRUE(differs([](Options& one) { one.jwks_every.value = 1s; }));
  EXPECT_TRUE(differs([](Options& one) { one.jwks_timeout.value = 1s; }));
  EXPECT_TRUE(differs([](Options& one) { one.jwks_ca.value = "a"; }));
  EXPECT_TRUE(differs([](Options& one) { one.algorithms = {Algorithm::ps256}; }));
}

TEST(SharedKeySource, ACaThatIsNone) {
  Options policy;
  policy.jwks_url = Located<std::string>("https://localhost/keys");
  policy.jwks_ca = {"/dev/null", {7, 3}};
  const auto source = SharedKeySource::make(policy, 1);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().position, (Position{7, 3}));
  policy.jwks_ca = {};
  const auto trusted = SharedKeySource::make(policy, 1);
  ASSERT_TRUE(trusted) << trusted.error().text;
  EXPECT_TRUE((*trusted)->needs_resolver());
}

}  // namespace
}  // namespace sluice::gateway::jwt
