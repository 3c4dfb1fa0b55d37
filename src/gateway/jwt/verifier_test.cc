#include "gateway/jwt/verifier.h"

#include <gtest/gtest.h>

#include "base/base64url.h"
#include "gateway/jwt/tokens_for_tests.h"

namespace sluice::gateway::jwt {
namespace {

using namespace for_tests;

constexpr double now_s = 1'000'000;

KeySet set_of(std::vector<Key::Made> keys) {
  KeySet set;
  for (auto& key : keys) set.keys.push_back(*key);
  return set;
}
KeySet of_secret() { return set_of({Key::from_secret(secret)}); }

// The result of verifying a token: "" or the refusal.
std::string verdict(std::string_view token, const Requirements& requirements = {.require_exp = false},
                    const KeySet& keys = of_secret(), double at_s = now_s) {
  Verifier verifier(keys, requirements);
  const auto verified = verifier.verify(token, at_s);
  return verified ? "" : std::string(name_of(verified.error()));
}

TEST(Verifier, TheExamplesOfRfc7515) {
  const KeySet keys = set_of({Key::from_secret(decoded(rfc_secret)), Key::from_rsa(decoded(rfc_n), decoded("AQAB")),
                              Key::from_ec(Key::Kind::p256, decoded(rfc_x), decoded(rfc_y))});
  Verifier verifier(keys, {.issuers = {"joe"}});
  for (const std::string_view token : {rfc_hs256, rfc_rs256, rfc_es256}) {
    const auto verified = verifier.verify(token, rfc_exp_s - 1);
    ASSERT_TRUE(verified) << name_of(verified.error());
    EXPECT_EQ(verified->ends_s, rfc_exp_s);
    EXPECT_EQ(verified->claims->find("iss")->text, "joe");
    EXPECT_EQ(verified->claims->find("http://example.com/is_root")->text, "true");
    EXPECT_EQ(verifier.verify(token, rfc_exp_s).error(), Refusal::expired);
  }
}

TEST(Verifier, ForgedHeaders) {
  EXPECT_EQ(verdict(token_of("{}")), "");
  EXPECT_EQ(verdict(token_of("{}", R"({"alg":"none"})")), "algorithm");
  EXPECT_EQ(verdict(token_of("{}", R"({"alg":"RS256"})")), "algorithm");
  EXPECT_EQ(verdict(token_of("{}", R"({"alg":"HS256","crit":["x"],"x":1})")), "unsupported");
  EXPECT_EQ(verdict(token_of("{}", R"({"alg":"HS256","alg":"HS256"})")), "malformed");
  // RFC 7519, 6.1: the unsecured JWT.
  EXPECT_EQ(verdict("eyJhbGciOiJub25lIn0."
                    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."),
            "malformed");
  EXPECT_EQ(verdict("eyJhbGciOiJub25lIn0.e30.AA"), "algorithm");
  EXPECT_EQ(verdict(token_of("{}", hs256_header, "another secret, as long as needed")), "signature");
  EXPECT_EQ(verdict(token_of("{}", hs256_header, "")), "signature");
}

// A public key is never used as an HMAC secret, whatever "alg" says.
TEST(Verifier, APublicKeyIsNoSecret) {
  const KeySet keys = set_of({Key::from_rsa(decoded(rfc_n), decoded("AQAB"), "r"),
                              Key::from_ec(Key::Kind::p256, decoded(rfc_x), decoded(rfc_y), "e")});
  for (const std::string& known : {decoded(rfc_n), std::string(rfc_n), decoded(rfc_x)}) {
    for (const char* header : {R"({"alg":"HS256"})", R"({"alg":"HS256","kid":"r"})", R"({"alg":"HS256","kid":"e"})"}) {
      EXPECT_EQ(verdict(token_of("{}", header, known), {.require_exp = false}, keys), "algorithm");
    }
    EXPECT_EQ(verdict(token_of("{}", R"({"alg":"RS256","kid":"r"})", known), {.require_exp = false}, keys),
              "signature");
    EXPECT_EQ(verdict(token_of("{}", R"({"alg":"RS256","kid":"e"})", known), {.require_exp = false}, keys), "key");
    EXPECT_EQ(verdict(token_of("{}", R"({"alg":"ES256","kid":"e"})", known), {.require_exp = false}, keys),
              "signature");
    // An algorithm that fits the key but is not the key's algorithm.
    EXPECT_EQ(verdict(token_of("{}", R"({"alg":"PS256","kid":"r"})", known), {.require_exp = false}, keys),
              "algorithm");
  }
}

TEST(Verifier, AKeyForSeveralAlgorithms) {
  const std::string long_secret(64, 's');
  const auto key = Key::from_secret(long_secret, "a");
  const KeySet keys = set_of({key, (*key)->with(Algorithm::hs512)});
  const auto token = [&](const std::string& header, const EVP_MD* digest) {
    const std::string input = encode_base64url(header) + "." + encode_base64url("{}");
    return verdict(input + "." + encode_base64url(hmac(long_secret, input, digest)), {.require_exp = false}, keys);
  };
  for (const std::string& kid : {std::string(), std::string(R"(,"kid":"a")")}) {
    EXPECT_EQ(token(R"({"alg":"HS256")" + kid + "}", EVP_sha256()), "");
    EXPECT_EQ(token(R"({"alg":"HS512")" + kid + "}", EVP_sha512()), "");
    EXPECT_EQ(token(R"({"alg":"HS512")" + kid + "}", EVP_sha256()), "signature");
    EXPECT_EQ(token(R"({"alg":"HS384")" + kid + "}", EVP_sha384()), "algorithm");
  }
}

TEST(Verifier, KeysAreChosenById) {
  const std::string other = "fedcba9876543210fedcba9876543210";
  const KeySet keys = set_of({Key::from_secret(secret, "a"), Key::from_secret(other, "b")});
  const auto by = [&](const std::string& kid, std::string_view key) {
    return verdict(token_of("{}", R"({"alg":"HS256")" + kid + "}", key), {.require_exp = false}, keys);
  };
  EXPECT_EQ(by(R"(,"kid":"a")", secret), "");
  EXPECT_EQ(by(R"(,"kid":"b")", other), "");
  EXPECT_EQ(by(R"(,"kid":"a")", other), "signature");
  EXPECT_EQ(by(R"(,"kid":"c")", secret), "key");
  EXPECT_EQ(by(R"(,"kid":"")", secret), "key");
  EXPECT_EQ(by("", secret), "key") << "which of the two?";
  // A key without an id matches every token. If a key is the only one, the token needs no "kid".
  EXPECT_EQ(verdict(token_of("{}", R"({"alg":"HS256","kid":"x"})")), "");
  const KeySet alone =
      set_of({Key::from_secret(secret, "a"), Key::from_ec(Key::Kind::p256, decoded(rfc_x), decoded(rfc_y), "b")});
  EXPECT_EQ(verdict(token_of("{}"), {.require_exp = false}, alone), "");
  EXPECT_EQ(verdict(token_of("{}", R"({"alg":"HS256","kid":"b"})"), {.require_exp = false}, alone), "key");
}

TEST(Verifier, Forms) {
  const std::string good = token_of(R"({"a":1})");
  EXPECT_EQ(verdict(good), "");
  for (const std::string& bad : {std::string(), std::string("."), good + ".", good + ".x", "." + good, good + "=",
                                 " " + good, good + " ", good.substr(0, good.rfind('.')), good + "AA"}) {
    EXPECT_EQ(verdict(bad), "malformed") << bad;
  }
  // The last character has unused bits, which must be zero.
  std::string last = good;
  const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  last.back() = alphabet[alphabet.find(last.back()) + 1];
  EXPECT_EQ(verdict(last), "malformed");
  for (const char* payload :
       {"null", "[]", "x", "{", R"({"a":1,"a":2})", "{\"a\":\"\xff\"}", R"({"exp":"1"})", R"({"exp":null})",
        R"({"exp":true})", R"({"nbf":"1"})", R"({"nbf":[1]})", R"({"exp":1e999})"}) {
    EXPECT_EQ(verdict(token_of(payload)), "malformed") << payload;
  }
  // Without the key, a client does not reach the parser of the payload.
  EXPECT_EQ(verdict(token_of("x", hs256_header, "not the secret at all, but as long")), "signature");
}

TEST(Verifier, Times) {
  const auto at = [](const std::string& payload, double leeway_s = 0) {
    return verdict(token_of(payload), {.leeway_s = leeway_s});
  };
  EXPECT_EQ(at(R"({"exp":1000001})"), "");
  EXPECT_EQ(at(R"({"exp":1000000})"), "expired");  // RFC 7519, 4.1.4: on or after
  EXPECT_EQ(at(R"({"exp":1000000.5})"), "");
  EXPECT_EQ(at(R"({"exp":1e300})"), "");
  EXPECT_EQ(at(R"({"exp":-1})"), "expired");
  EXPECT_EQ(at(R"({"exp":0})"), "expired");
  EXPECT_EQ(at(R"({"exp":999970})", 30), "expired");
  EXPECT_EQ(at(R"({"exp":999971})", 30), "");
  EXPECT_EQ(at(R"({"exp":2000000,"nbf":1000000})"), "");
  EXPECT_EQ(at(R"({"exp":2000000,"nbf":1000001})"), "not_yet");
  EXPECT_EQ(at(R"({"exp":2000000,"nbf":1000030})", 30), "");
  EXPECT_EQ(at(R"({"exp":2000000,"nbf":1000031})", 30), "not_yet");
  EXPECT_EQ(at("{}"), "endless");
  EXPECT_EQ(verdict(token_of("{}")), "");
  EXPECT_EQ(verdict(token_of(R"({"exp":1})")), "expired") << "not required, and still obeyed";
}

TEST(Verifier, Ids) {
  const Requirements with_id{.require_exp = false, .require_id = true};
  EXPECT_EQ(verdict(token_of(R"({"jti":"a"})"), with_id), "");
  for (const char* payload : {"{}", R"({"jti":1})", R"({"jti":null})", R"({"jti":["a"]})", R"({"x":{"jti":"a"}})"}) {
    EXPECT_EQ(verdict(token_of(payload), with_id), "nameless") << payload;
  }
}

TEST(Verifier, Issuers) {
  const Requirements two{.issuers = {"a", "b"}, .require_exp = false};
  EXPECT_EQ(verdict(token_of(R"({"iss":"a"})"), two), "");
  EXPECT_EQ(verdict(token_of(R"({"iss":"b"})"), two), "");
  for (const char* payload : {"{}", R"({"iss":"c"})", R"({"iss":"A"})", R"({"iss":"ab"})", R"({"iss":""})",
                              R"({"iss":["a"]})", R"({"iss":null})", R"({"x":{"iss":"a"}})"}) {
    EXPECT_EQ(verdict(token_of(payload), two), "issuer") << payload;
  }
  EXPECT_EQ(verdict(token_of(R"({"iss":"anybody"})")), "");
}

TEST(Verifier, Audiences) {
  const Requirements two{.audiences = {"a", "b"}, .require_exp = false};
  for (const char* payload : {R"({"aud":"a"})", R"({"aud":"b"})", R"({"aud":["x","b"]})", R"({"aud":["a","b"]})"}) {
    EXPECT_EQ(verdict(token_of(payload), two), "") << payload;
    EXPECT_EQ(verdict(token_of(payload)), "audience") << payload;  // RFC 7519, 4.1.3
  }
  for (const char* payload : {"{}", R"({"aud":"c"})", R"({"aud":[]})", R"({"aud":["c"]})", R"({"aud":null})",
                              R"({"aud":[["a"]]})", R"({"aud":{"a":"a"}})", R"({"aud":"a "})", R"({"aud":1})",
                              R"({"aud":["a",1]})", R"({"aud":[null,"a"]})", R"({"aud":["a",["a"]]})"}) {
    EXPECT_EQ(verdict(token_of(payload), two), "audience") << payload;
  }
  EXPECT_EQ(verdict(token_of("{}")), "");
}

TEST(Verifier, RequiredClaims) {
  using Words = std::vector<Located<std::string>>;
  const auto needs = [](const std::string& claim, Words any, Words all) {
    RequireOptions one;
    one.claim = claim;
    one.any = std::move(any);
    one.all = std::move(all);
    return Requirements{.claims = {one}, .require_exp = false};
  };
  const Requirements any = needs("scope", {{"a"}, {"b:read"}}, {});
  for (const char* payload : {R"({"scope":"a"})", R"({"scope":"x b:read"})", R"({"scope":"  a  x"})",
                              R"({"scope":["x","a"]})", R"({"scope":[1,"a"]})"}) {
    EXPECT_EQ(verdict(token_of(payload), any), "") << payload;
  }
  for (const char* payload : {"{}", R"({"scope":""})", R"({"scope":"A"})", R"({"scope":"ab"})", R"({"scope":"a,x"})",
                              R"({"scope":"a\tx"})", R"({"scope":[]})", R"({"scope":["a x"]})", R"({"scope":[["a"]]})",
                              R"({"scope":null})", R"({"scope":{"a":"a"}})", R"({"x":{"scope":"a"}})"}) {
    EXPECT_EQ(verdict(token_of(payload), any), "scope") << payload;
  }
  const Requirements all = needs("realm.roles", {}, {{"a"}, {"the owner"}});
  EXPECT_EQ(verdict(token_of(R"({"realm":{"roles":["the owner","x","a"]}})"), all), "");
  EXPECT_EQ(verdict(token_of(R"({"realm.roles":["the owner","a"]})"), all), "");
  for (const char* payload : {R"({"realm":{"roles":["a"]}})", R"({"realm":{"roles":"a the owner"}})",
                              R"({"roles":["a","the owner"]})", R"({"realm":{"roles":["the owner"]}})"}) {
    EXPECT_EQ(verdict(token_of(payload), all), "claim") << payload;
  }
  const Requirements both = needs("scp", {{"a"}, {"b"}}, {{"c"}});
  EXPECT_EQ(verdict(token_of(R"({"scp":"c b"})"), both), "");
  EXPECT_EQ(verdict(token_of(R"({"scp":"a b"})"), both), "scope");
  EXPECT_EQ(verdict(token_of(R"({"scp":"c"})"), both), "scope");
  // Other errors are reported before a missing scope, because with them a new token may help.
  EXPECT_EQ(verdict(token_of(R"({"exp":1})"), any), "expired");
  EXPECT_EQ(verdict(token_of(R"({"aud":"x"})"), any), "audience");
}

TEST(Verifier, RefusalsWithAnyKey) {
  RequireOptions scope;
  scope.claim = {"scope"};
  scope.any = {{"a"}};
  Verifier verifier(of_secret(), {.issuers = {"joe"}, .audiences = {"films"}, .claims = {scope}});
  const auto refusal = [&](const std::string& token) {
    const auto refused = verifier.refusal_with_any_key(token, now_s);
    return refused ? std::string(name_of(*refused)) : "";
  };
  const auto with = [&](const char* payload) {
    return refusal(token_of(payload, R"({"alg":"HS256","kid":"x"})", "not the secret at all, but as long"));
  };
  EXPECT_EQ(with(R"({"iss":"joe","aud":"films","exp":1000001})"), "") << "only a verified token is asked for its scope";
  EXPECT_EQ(with(R"({"iss":"eve","aud":"films","exp":1000001})"), "issuer");
  EXPECT_EQ(with(R"({"iss":"joe","aud":"books","exp":1000001})"), "audience");
  EXPECT_EQ(with(R"({"iss":"joe","aud":"films","exp":1000000})"), "expired");
  EXPECT_EQ(with(R"({"iss":"joe","aud":"films","exp":1000002,"nbf":1000001})"), "not_yet");
  EXPECT_EQ(with(R"({"iss":"joe","aud":"films"})"), "endless");
  EXPECT_EQ(with("x"), "malformed");
  EXPECT_EQ(refusal(token_of(R"({"iss":"joe","aud":"films","exp":1000001})") + "="), "malformed");
  EXPECT_EQ(refusal("a.b"), "malformed");
}

TEST(Verifier, OtherKeysFromNowOn) {
  Verifier verifier(of_secret(), {.require_exp = false});
  const std::string token = token_of("{}");
  EXPECT_TRUE(verifier.verify(token, now_s));
  verifier.set_keys(set_of({Key::from_secret("fedcba9876543210fedcba9876543210")}));
  EXPECT_EQ(verifier.verify(token, now_s).error(), Refusal::signature);
}

}  // namespace
}  // namespace sluice::gateway::jwt
