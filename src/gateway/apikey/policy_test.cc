#include "gateway/apikey/policy.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "http/identity.h"

namespace sluice::gateway::apikey {
namespace {

constexpr std::string_view key = "a-key-of-24-characters--";
constexpr const char* digest_of_abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

Named<KeyOptions> named(const char* name, std::string_view value) {
  return {.name = {name}, .value = {.value = std::string(value)}};
}

TEST(ParseKey, TakesDigestsAndKeys) {
  Sha256 sha256;
  EXPECT_EQ(parse_key(digest_of_abc), sha256.of("abc"));
  EXPECT_EQ(parse_key("0123456789abcdef"), sha256.of("0123456789abcdef"));
  for (const std::string_view bad :
       {"", "short", "0123456789abcde", "sha256:", "sha256:12", "0123456789 abcdef", "0123456789abcdef\n",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "sha256:ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}) {
    EXPECT_FALSE(parse_key(bad)) << bad;
  }
}

class Rows final : public KeyTable {
 public:
  bool is_fresh() const override { return fresh; }
  bool find(std::string_view digest, std::string& row) override {
    ++asked;
    const auto found = rows.find(digest);
    if (found != rows.end()) row = found->second;
    return found != rows.end();
  }
  bool contains(std::string_view key) override { return rows.contains(key); }
  std::string_view version() const override { return now; }

  std::map<std::string, std::string, std::less<>> rows;
  std::string now = "1";
  bool fresh = true;
  int asked = 0;
};

class ApiKeyPolicyTest : public testing::Test {
 protected:
  // The status of the policy's answer, or 0 if the request passes. `exchange` then holds the request that the route
  // would get.
  int ask(std::vector<http::Field> with, std::string_view query = {}) {
    if (policy == nullptr) {
      auto made = std::make_unique<Rows>();
      rows = made.get();
      policy = std::make_unique<ApiKeyPolicy>(options, options.table ? std::move(made) : nullptr);
    }
    end();
    exchange.emplace();
    fields = std::move(with);
    target = "/path" + (query.empty() ? "" : "?" + std::string(query));
    http::Request& request = exchange->request;
    request.fields = fields;
    request.target = target;
    request.path = "/path";
    request.query = query.empty() ? std::string_view{} : std::string_view(target).substr(6);
    slot = {};
    answer = policy->before(*exchange, slot).take();
    return answer ? answer->status : 0;
  }
  int ask(std::string_view value) { return ask({{"X-API-Key", value}}); }
  void end() {
    if (exchange && policy) policy->ended(*exchange, slot, {});
    exchange.reset();
  }
  ~ApiKeyPolicyTest() override { end(); }

  std::string claim(std::string_view name) {
    const http::Claims* const claims = http::claims_of(*exchange);
    const http::Claim* found = claims != nullptr ? claims->find(name) : nullptr;
    return found != nullptr ? std::string(found->text) : "";
  }
  std::string passed() {
    std::string all;
    for (const auto& [name, value] : exchange->request.fields)
      all += std::string(name) + ": " + std::string(value) + "\n";
    return all;
  }

  Options options = [] {
    Options made;
    made.keys = {named("mobile", key), named("abc \"quoted\"", digest_of_abc)};
    return made;
  }();
  std::unique_ptr<ApiKeyPolicy> policy;
  Rows* rows = nullptr;
  std::optional<http::Exchange> exchange;
  http::Slot slot;
  std::vector<http::Field> fields;
  std::string target;
  std::optional<http::Response> answer;
};

TEST_F(ApiKeyPolicyTest, KnowsItsKeys) {
  EXPECT_EQ(ask(key), 0);
  EXPECT_EQ(claim("sub"), "mobile");
  EXPECT_EQ(ask({{"A", "b"}, {"x-api-KEY", "abc"}, {"C", "d"}}), 0);
  EXPECT_EQ(claim("sub"), "abc \"quoted\"");
  EXPECT_EQ(passed(), "A: b\nC: d\n") << "the key is for nobody else";
}

TEST_F(ApiKeyPolicyTest, RefusesAllElse) {
  EXPECT_EQ(ask(std::vector<http::Field>{}), 401);
  EXPECT_EQ(answer->fields.get("WWW-Authenticate"), "ApiKey realm=\"sluice\"");
  for (const std::string_view bad :
       {std::string_view(""), std::string_view("ABC"), std::string_view("abc "), std::string_view("abcd"),
        std::string_view("abc\0", 4), std::string_view("ab"), std::string_view(digest_of_abc),
        std::string_view(digest_of_abc).substr(7), std::string_view("mobile")}) {
    EXPECT_EQ(ask(bad), 401) << bad;
    EXPECT_EQ(http::claims_of(*exchange), nullptr);
  }
  EXPECT_EQ(ask({{"X-API-Key", "abc"}, {"x-api-key", "abc"}}), 400);
  EXPECT_EQ(ask({{"X-API-Key", ""}, {"x-api-key", "abc"}}), 400);
  EXPECT_EQ(ask({{"X-API-Keys", "abc"}}, "X-API-Key=abc"), 401);
}

TEST_F(ApiKeyPolicyTest, MayBeOptional) {
  options.optional = true;
  EXPECT_EQ(ask(std::vector<http::Field>{}), 0);
  EXPECT_EQ(http::claims_of(*exchange), nullptr);
  EXPECT_EQ(ask("other"), 401);
  EXPECT_EQ(ask(""), 401);
}

TEST_F(ApiKeyPolicyTest, PassesKeysWhereItIsAskedTo) {
  options.pass = true;
  EXPECT_EQ(ask({{"X-API-Key", "abc"}, {"A", "b"}}), 0);
  EXPECT_EQ(passed(), "X-API-Key: abc\nA: b\n");
}

TEST_F(ApiKeyPolicyTest, InTheQueryString) {
  options.query = Located<std::string>("key");
  for (const auto& [query, left] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"key=abc", ""}, {"a=1&key=abc", "a=1"}, {"key=abc&a=1&b", "a=1&b"}, {"a=1&k%65y=%61bc&b=2", "a=1&b=2"}}) {
    EXPECT_EQ(ask({{"A", "b"}}, query), 0) << query;
    EXPECT_EQ(exchange->request.query, left);
    EXPECT_EQ(exchange->request.target, "/path" + (left.empty() ? "" : "?" + std::string(left)));
    EXPECT_EQ(passed(), "A: b\n");
  }
  EXPECT_EQ(ask({{"X-API-Key", "abc"}}), 401);
  EXPECT_EQ(ask({}, "key=abc&key=abc"), 400);
  EXPECT_EQ(ask({}, "key=abc&%6bey=abc"), 400);
  for (const std::string_view bad :
       {"key", "key=", "key=ab%6", "key=abc%00", "KEY=abc", "key=abc+", "xkey=abc", "key%00=abc"}) {
    EXPECT_EQ(ask({}, bad), 401) << bad;
  }
}

TEST_F(ApiKeyPolicyTest, InACookie) {
  options.cookie = Located<std::string>("key");
  EXPECT_EQ(ask({{"Cookie", "a=1; key=abc;b=2"}, {"A", "b"}, {"cookie", "c=3"}}), 0);
  EXPECT_EQ(passed(), "Cookie: a=1; b=2\nA: b\ncookie: c=3\n");
  EXPECT_EQ(ask({{"Cookie", "key=\"abc\""}}), 0);
  EXPECT_EQ(passed(), "");
  EXPECT_EQ(ask({{"Cookie", "key=abc; key=abc"}}), 400);
  EXPECT_EQ(ask({{"Cookie", "key=abc"}, {"Cookie", "key=x"}}), 400);
  for (const std::string_view bad : {"key", "key=", "Key=abc", "akey=abc", "a=key=abc"}) {
    EXPECT_EQ(ask({{"Cookie", bad}}), 401) << bad;
  }
}

TEST_F(ApiKeyPolicyTest, InATable) {
  options.keys.clear();
  options.table = Located<std::string>("keys");
  EXPECT_EQ(ask("abc"), 401);
  const std::string digest(std::string_view(digest_of_abc).substr(7));
  rows->rows[digest] = R"({"digest":"x","sub":"mobile","tenant":7})";
  EXPECT_EQ(ask("abc"), 0) << "what is not there is not remembered";
  EXPECT_EQ(claim("sub"), "mobile");
  EXPECT_EQ(claim("tenant"), "7");
  const int asked = rows->asked;
  EXPECT_EQ(ask("abc"), 0);
  EXPECT_EQ(rows->asked, asked);
  rows->rows.clear();
  rows->now = "2";
  EXPECT_EQ(ask("abc"), 401) << "another version of the table";
  rows->rows[digest] = R"({"sub":"other"})";
  rows->now = "3";
  EXPECT_EQ(ask("abc"), 0);
  EXPECT_EQ(claim("sub"), "other");
  rows->fresh = false;
  EXPECT_EQ(ask("abc"), 503);
  EXPECT_EQ(answer->fields.get("Retry-After"), "1");
  EXPECT_EQ(ask("abcd"), 503);
  rows->fresh = true;
  rows->rows[digest] = "no object";
  rows->now = "4";
  EXPECT_EQ(ask("abc"), 503);
}

}  // namespace
}  // namespace sluice::gateway::apikey
