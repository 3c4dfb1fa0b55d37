#include "gateway/jwt/policy.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/reactor.h"
#include "gateway/jwt/tokens_for_tests.h"
#include "http/identity.h"

namespace sluice::gateway::jwt {
namespace {

using namespace for_tests;

// A reactor whose wall clock the test sets.
class ClockReactor final : public core::Reactor {
 public:
  ClockReactor() : Reactor(Instant{}) {}
  std::int64_t wall_clock_ns() const override { return now_s * 1'000'000'000; }
  std::int64_t now_s = 1000;

  Result<void> bind(core::Handle&, const core::Address&, bool) override { return no(); }
  Result<void> start_listening(core::Handle&, int) override { return no(); }
  Result<bool> accept(core::Handle&, core::Handle&, core::Address*) override { return no(); }
  Result<bool> connect(core::Handle&, const core::Address&) override { return no(); }
  Result<void> connect_result(core::Handle&) override { return no(); }
  Result<core::Address> local_address(const core::Handle&) const override { return no(); }
  void close(core::Handle&) noexcept override {}
  void shutdown_write(core::Handle&) noexcept override {}
  void reset_on_close(core::Handle&) noexcept override {}
  core::Io recv(core::Handle&, char*, std::size_t) override { return {}; }
  core::Io send(core::Handle&, std::span<const iovec>) override { return {}; }
  core::Io send_file(core::Handle&, int, std::uint64_t, std::size_t) override { return {}; }
  void turn(Instant) override {}
  void wake() noexcept override {}

 private:
  static std::unexpected<Error> no() { return fail(Errc::system); }
  void set_quiet(core::Handle&, bool) noexcept override {}
};

std::shared_ptr<const KeySet> set_of(std::string_view key) {
  auto set = std::make_shared<KeySet>();
  set->keys.push_back(*Key::from_secret(key));
  return set;
}

std::shared_ptr<CurrentKeys> keys_of(std::string_view key = secret) {
  return std::make_shared<CurrentKeys>(set_of(key));
}

std::optional<http::Response> judge(JwtPolicy& policy, http::Exchange& exchange) {
  http::Slot slot;
  return policy.before(exchange, slot).take();
}

class JwtPolicyTest : public testing::Test {
 protected:
  // "" if the request passes, else the status and the challenge.
  std::string ask(std::vector<http::Field> fields) {
    exchange.reset();
    request = {};
    request.fields = fields;
    auto refused = judge(policy, exchange);
    if (!refused) return "";
    EXPECT_EQ(refused->fields.get("Content-Type"), "application/problem+json");
    return std::to_string(refused->status) + " " + std::string(refused->fields.get("WWW-Authenticate"));
  }
  std::string ask(const std::string& authorization) { return ask({{"Authorization", authorization}}); }
  std::uint64_t refusals(Refusal why) const { return policy.counters().refusals[static_cast<std::size_t>(why)]; }
  static std::string invalid(const std::string& description) {
    return "401 Bearer realm=\"sluice\", error=\"invalid_token\", error_description=\"" + description + "\"";
  }

  ClockReactor reactor;
  Options options;
  const std::shared_ptr<CurrentKeys> keys = keys_of();
  JwtPolicy policy{options, keys, reactor};
  http::Exchange exchange;
  http::Request& request = exchange.request;
  const std::string good = token_of(R"({"sub":"ada","exp":2000})");
};

TEST_F(JwtPolicyTest, ClaimsRideOnTheRequest) {
  EXPECT_EQ(ask({{"Accept", "*/*"}, {"Authorization", "Bearer " + good}}), "");
  ASSERT_NE(http::claims_of(exchange), nullptr);
  EXPECT_EQ(http::claims_of(exchange)->find("sub")->text, "ada");
  for (const char* scheme : {"bearer ", "BEARER ", "bEaReR   "}) EXPECT_EQ(ask(scheme + good), "") << scheme;
}

TEST_F(JwtPolicyTest, WithoutAToken) {
  EXPECT_EQ(ask(std::vector<http::Field>{}), "401 Bearer realm=\"sluice\"");
  EXPECT_EQ(refusals(Refusal::missing), 1u);
  for (const char* other : {"Basic YTpi", "Bearerx a", "Bear", "", "Token abc", " "}) {
    EXPECT_EQ(ask(other), "401 Bearer realm=\"sluice\"") << other;
  }
  EXPECT_EQ(ask(good), "401 Bearer realm=\"sluice\"");
  EXPECT_EQ(refusals(Refusal::scheme), 7u);
  EXPECT_EQ(ask("Bearer"), invalid("The token is malformed."));
  EXPECT_EQ(ask("Bearer " + good + " " + good), invalid("The token is malformed."));
  EXPECT_EQ(ask("Bearer " + good + ", Bearer " + good), invalid("The token is malformed."));
  EXPECT_EQ(http::claims_of(exchange), nullptr);
}

TEST_F(JwtPolicyTest, ExactlyOneAuthorization) {
  const std::string bearer = "Bearer " + good;
  const std::string_view bad =
      "400 Bearer realm=\"sluice\", error=\"invalid_request\", error_description=\"The "
      "Authorization field comes more than once.\"";
  EXPECT_EQ(ask({{"Authorization", bearer}, {"authorization", bearer}}), bad);
  EXPECT_EQ(ask({{"Authorization", bearer}, {"Accept", "*/*"}, {"AUTHORIZATION", "Basic YTpi"}}), bad);
  EXPECT_EQ(refusals(Refusal::repeated), 2u);
  EXPECT_EQ(http::claims_of(exchange), nullptr);
}

TEST_F(JwtPolicyTest, ALongTokenIsNotLookedAt) {
  const std::string long_token = token_of(R"({"exp":2000,"x":")" + std::string(7000, 'x') + "\"}");
  ASSERT_GT(long_token.size(), options.token_limit);
  EXPECT_EQ(ask("Bearer " + long_token), invalid("The token is too long."));
  EXPECT_EQ(refusals(Refusal::too_large), 1u);
}

TEST_F(JwtPolicyTest, TheSignatureIsVerifiedOnce) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ask("Bearer " + good), "");
  EXPECT_EQ(policy.counters().verifications, 1u);
  EXPECT_EQ(policy.counters().hits, 4u);
  EXPECT_EQ(policy.counters().cached_tokens, 1u);
  EXPECT_GT(policy.counters().cached_bytes, good.size());
  // Refused tokens are not cached.
  const std::string bad = token_of("{\"exp\":2000}", hs256_header, "no, that is not the secret at all");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask("Bearer " + bad), invalid("The token's signature is wrong."));
  EXPECT_EQ(policy.counters().cached_tokens, 1u);
  EXPECT_EQ(refusals(Refusal::signature), 3u);
}

TEST_F(JwtPolicyTest, ACachedTokenExpiresToo) {
  EXPECT_EQ(ask("Bearer " + good), "");
  EXPECT_EQ(http::expires_s_of(exchange), 2030);  // includes the leeway
  const auto claims = exchange.attributes.find<http::Identity>()->claims;
  reactor.now_s = 2029;
  exchange.attributes.clear();
  EXPECT_EQ(ask("Bearer " + good), "");
  EXPECT_EQ(http::expires_s_of(exchange), 2030);
  EXPECT_EQ(policy.counters().hits, 1u);
  reactor.now_s = 2030;
  EXPECT_EQ(ask("Bearer " + good), invalid("The token has expired."));
  EXPECT_EQ(policy.counters().cached_tokens, 0u);
  EXPECT_EQ(refusals(Refusal::expired), 1u);
  EXPECT_EQ(claims->find("sub")->text, "ada") << "whoever still has them keeps them";
}

TEST_F(JwtPolicyTest, AClockThatIsSetBack) {
  const std::string later = token_of(R"({"nbf":5000,"exp":9000})");
  EXPECT_EQ(ask("Bearer " + later), invalid("The token is not valid yet."));
  reactor.now_s = 6000;
  EXPECT_EQ(ask("Bearer " + later), "");
  reactor.now_s = 4000;
  EXPECT_EQ(ask("Bearer " + later), invalid("The token is not valid yet."));
  EXPECT_EQ(http::claims_of(exchange), nullptr);
}

TEST_F(JwtPolicyTest, NewKeysForgetWhatTheOldOnesVerified) {
  const auto other = set_of("fedcba9876543210fedcba9876543210");
  EXPECT_EQ(ask("Bearer " + good), "");
  keys->publish(other);
  EXPECT_EQ(ask("Bearer " + good), invalid("The token's signature is wrong."));
  const std::string fresh = token_of(R"({"exp":2000})", hs256_header, "fedcba9876543210fedcba9876543210");
  EXPECT_EQ(ask("Bearer " + fresh), "");
  keys->publish(other);  // unchanged
  EXPECT_EQ(ask("Bearer " + fresh), "");
  EXPECT_EQ(policy.counters().cached_tokens, 1u);
}

TEST_F(JwtPolicyTest, WhatIsNotPermittedIs403) {
  const auto required = [](const char* claim, std::vector<Located<std::string>> any,
                           std::vector<Located<std::string>> all) {
    RequireOptions one;
    one.claim = {claim};
    one.any = std::move(any);
    one.all = std::move(all);
    return one;
  };
  options.require = {required("scope", {{"films:read"}, {"films:all"}}, {}), required("roles", {}, {{"editor"}}),
                     required("scp", {}, {{"x"}})};
  JwtPolicy strict(options, keys_of(), reactor);
  const auto ask = [&](const std::string& payload) {
    const std::string authorization = "Bearer " + token_of(payload);
    const std::vector<http::Field> fields = {{"Authorization", authorization}};
    http::Exchange exchange;
    exchange.request.fields = fields;
    const auto refused = judge(strict, exchange);
    EXPECT_EQ(refused.has_value(), http::claims_of(exchange) == nullptr);
    return refused ? std::to_string(refused->status) + " " + std::string(refused->fields.get("WWW-Authenticate")) : "";
  };
  const std::string insufficient = "403 Bearer realm=\"sluice\", error=\"insufficient_scope\", error_description=";
  const std::string scope = insufficient + "\"The token's scope does not suffice.\", scope=\"films:read films:all x\"";
  EXPECT_EQ(ask(R"({"exp":2000})"), scope);
  EXPECT_EQ(ask(R"({"exp":2000,"scope":"films:all","roles":["editor"]})"), scope);
  EXPECT_EQ(ask(R"({"exp":2000,"scope":"films:all","scp":["x"]})"),
            insufficient + "\"The token's claims do not suffice.\"");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask(R"({"exp":2000,"scope":"films:all","roles":["editor"],"scp":["x"]})"), "");
  EXPECT_EQ(strict.counters().cached_tokens, 1u);
  EXPECT_EQ(strict.counters().hits, 1u);
  EXPECT_EQ(strict.counters().refusals[static_cast<std::size_t>(Refusal::scope)], 2u);
  EXPECT_EQ(strict.counters().refusals[static_cast<std::size_t>(Refusal::claim)], 1u);
}

class Ids final : public KeyTable {
 public:
  bool is_fresh() const override { return fresh; }
  bool find(std::string_view, std::string&) override { return false; }
  bool contains(std::string_view key) override { return ids.contains(key); }
  std::string_view version() const override { return {}; }

  std::set<std::string, std::less<>> ids;
  bool fresh = true;
};

TEST_F(JwtPolicyTest, RevokedTokens) {
  auto table = std::make_unique<Ids>();
  Ids& revoked = *table;
  options.revoked = {"revoked"};
  JwtPolicy strict(options, keys_of(), reactor, nullptr, std::move(table));
  const auto status = [&](const std::string& payload) {
    const std::string authorization = "Bearer " + token_of(payload);
    const std::vector<http::Field> fields = {{"Authorization", authorization}};
    http::Exchange exchange;
    exchange.request.fields = fields;
    const auto refused = judge(strict, exchange);
    EXPECT_EQ(refused.has_value(), http::claims_of(exchange) == nullptr);
    return refused ? refused->status : 0;
  };
  const std::string one = R"({"exp":2000,"jti":"1"})";
  const std::string two = R"({"exp":2000,"jti":"2"})";
  EXPECT_EQ(status(one), 0);
  revoked.ids = {"1", "2"};
  EXPECT_EQ(status(one), 401) << "although it is in the cache";
  EXPECT_EQ(status(two), 401);
  revoked.ids = {"2"};
  EXPECT_EQ(status(one), 0);
  revoked.fresh = false;
  EXPECT_EQ(status(one), 503);
  revoked.fresh = true;
  EXPECT_EQ(status(R"({"exp":2000})"), 401);
  const auto refusals = strict.counters().refusals;
  EXPECT_EQ(refusals[static_cast<std::size_t>(Refusal::revoked)], 2u);
  EXPECT_EQ(refusals[static_cast<std::size_t>(Refusal::away)], 1u);
  EXPECT_EQ(refusals[static_cast<std::size_t>(Refusal::nameless)], 1u);
}

TEST_F(JwtPolicyTest, Optional) {
  options.optional = true;
  options.realm = {"films and more"};
  JwtPolicy lenient(options, keys_of(), reactor);
  http::Exchange none;
  EXPECT_FALSE(judge(lenient, none));
  EXPECT_EQ(http::claims_of(none), nullptr);
  EXPECT_EQ(lenient.counters().anonymous, 1u);
  const std::string expired = "Bearer " + token_of(R"({"exp":1})");
  for (const std::string& authorization : {expired, std::string("Basic YTpi"), std::string("Bearer"), std::string()}) {
    const std::vector<http::Field> fields = {{"Authorization", authorization}};
    http::Exchange exchange;
    exchange.request.fields = fields;
    const auto refused = judge(lenient, exchange);
    ASSERT_TRUE(refused) << authorization;
    EXPECT_EQ(refused->status, 401);
    EXPECT_TRUE(refused->fields.get("WWW-Authenticate").starts_with("Bearer realm=\"films and more\""));
  }
}

class JwtFromTest : public testing::Test {
 protected:
  struct Asked {
    http::Method method = http::Method::get;
    std::string_view query{};
    std::string_view upgrade{};
    bool secure = false;
  };
  // 0 if the request passes, else the status.
  int ask(const std::vector<http::Field>& with, const Asked& how) {
    if (!policy) {
      options.from.clear();
      for (const char* place : from) options.from.emplace_back(place);
      policy.emplace(options, keys_of(), reactor);
    }
    fields = with;
    target = "/path" + (how.query.empty() ? "" : "?" + std::string(how.query));
    exchange.emplace();
    http::Request& request = exchange->request;
    request.method = how.method;
    request.fields = fields;
    request.target = target;
    request.path = "/path";
    request.query = how.query.empty() ? std::string_view{} : std::string_view(target).substr(6);
    request.authority = "app.example";
    request.secure = how.secure;
    request.upgrade = how.upgrade;
    answer = judge(*policy, *exchange);
    EXPECT_TRUE(!answer || http::claims_of(*exchange) == nullptr);
    return answer ? answer->status : 0;
  }
  int ask(const std::vector<http::Field>& with) { return ask(with, {}); }
  std::string passed() const {
    std::string all(exchange->request.target);
    for (const auto& [name, value] : exchange->request.fields)
      all += "\n" + std::string(name) + ": " + std::string(value);
    return all;
  }
  std::uint64_t refusals(Refusal why) const { return policy->counters().refusals[static_cast<std::size_t>(why)]; }

  std::vector<const char*> from;
  ClockReactor reactor;
  Options options;
  std::optional<JwtPolicy> policy;
  std::optional<http::Exchange> exchange;  // after the policy, whose memory it returns
  std::vector<http::Field> fields;
  std::string target;
  std::optional<http::Response> answer;
  const std::string good = token_of(R"({"sub":"ada","exp":2000})");
  const std::string other = token_of(R"({"sub":"bob","exp":2000})");
  const std::string bearer = "Bearer " + good;
  const std::string cookie = "a=1; session=" + good + "; b=2";
  const std::string query = "x=1&access_token=" + good + "&y=2";
};

TEST_F(JwtFromTest, Headers) {
  from = {"header.X-Token"};
  EXPECT_EQ(ask({{"A", "b"}, {"x-token", good}}), 0);
  EXPECT_EQ(http::claims_of(*exchange)->find("sub")->text, "ada");
  EXPECT_EQ(passed(), "/path\nA: b");
  EXPECT_EQ(ask({{"X-Token", bearer}}), 401) << "it is the token alone";
  EXPECT_EQ(ask({{"X-Token", ""}}), 401);
  EXPECT_EQ(ask({{"Authorization", bearer}}), 401) << "the list does not have it";
  EXPECT_EQ(ask({{"X-Token", good}, {"Authorization", "Basic YTpi"}}), 0);
  EXPECT_EQ(passed(), "/path\nAuthorization: Basic YTpi");
  EXPECT_EQ(ask({{"X-Token", good}, {"X-TOKEN", good}}), 0);
  EXPECT_EQ(ask({{"X-Token", good}, {"X-TOKEN", other}}), 400);
  EXPECT_EQ(answer->fields.get("WWW-Authenticate"),
            "Bearer realm=\"sluice\", error=\"invalid_request\", error_description=\"The request has different "
            "tokens.\"");
}

TEST_F(JwtFromTest, Cookies) {
  using Method = http::Method;
  from = {"cookie.session"};
  options.origins = {{"https://admin.example"}, {"https://*.sub.example"}};
  for (const Method method : {Method::get, Method::head, Method::options}) {
    EXPECT_EQ(ask({{"Cookie", cookie}, {"Origin", "https://evil.example"}}, {.method = method}), 0);
    EXPECT_EQ(ask({{"Cookie", cookie}}, {.method = method}), 0);
    EXPECT_EQ(passed(), "/path\nCookie: a=1; b=2");
  }
  const std::vector<Asked> unsafe = {{.method = Method::post},  {.method = Method::put},
                                     {.method = Method::patch}, {.method = Method::delete_},
                                     {.method = Method::other}, {.method = Method::connect, .upgrade = "websocket"},
                                     {.upgrade = "WebSocket"},  {.upgrade = "h2c, websocket"}};
  for (Asked how : unsafe) {
    for (const char* good_origin : {"http://app.example", "https://admin.example", "https://a.sub.example"}) {
      EXPECT_EQ(ask({{"Cookie", cookie}, {"Origin", good_origin}}, how), 0) << good_origin;
    }
    EXPECT_EQ(ask({{"Cookie", cookie}}, how), 403);
    for (const char* bad : {"https://app.example", "http://app.example:81", "http://evil.example", "null", "",
                            "https://sub.example", "http://admin.example"}) {
      EXPECT_EQ(ask({{"Cookie", cookie}, {"Origin", bad}}, how), 403) << bad;
      EXPECT_EQ(answer->fields.get("WWW-Authenticate"), "");
    }
    const std::vector<http::Field> twice = {
        {"Cookie", cookie}, {"Origin", "http://app.example"}, {"Origin", "http://app.example"}};
    EXPECT_EQ(ask(twice, how), 403);
    how.secure = true;
    EXPECT_EQ(ask({{"Cookie", cookie}, {"Origin", "https://app.example"}}, how), 0);
    EXPECT_EQ(ask({{"Cookie", cookie}, {"Origin", "http://app.example"}}, how), 403);
  }
  EXPECT_EQ(refusals(Refusal::origin), unsafe.size() * 10);
  EXPECT_EQ(ask({{"Cookie", "session=" + good + "; session=" + other}}), 400);
  EXPECT_EQ(ask({}, {.method = Method::post}), 401) << "no token";
}

TEST_F(JwtFromTest, ATokenThatIsElsewhereTooNeedsNoOrigin) {
  from = {"header.authorization", "cookie.session"};
  const Asked post{.method = http::Method::post};
  EXPECT_EQ(ask({{"Authorization", bearer}}, post), 0);
  EXPECT_EQ(ask({{"Authorization", bearer}, {"Cookie", cookie}}, post), 0);
  EXPECT_EQ(passed(), "/path\nAuthorization: " + bearer + "\nCookie: a=1; b=2");
  EXPECT_EQ(ask({{"Cookie", cookie}}, post), 403);
  EXPECT_EQ(ask({{"Authorization", "Bearer " + other}, {"Cookie", cookie}}), 400);
  EXPECT_EQ(ask({{"Authorization", bearer}, {"Authorization", bearer}}), 400) << "as without a cookie";
  EXPECT_EQ(ask({{"Authorization", "Basic YTpi"}, {"Cookie", cookie}}), 401);
}

TEST_F(JwtFromTest, QueryParameters) {
  from = {"query.access_token"};
  const Asked websocket{.query = query, .upgrade = "websocket"};
  const std::vector<http::Field> stream = {{"Accept", "text/html;q=0.1, Text/Event-Stream"}};
  EXPECT_EQ(ask({}, websocket), 0);
  EXPECT_EQ(passed(), "/path?x=1&y=2");
  EXPECT_EQ(exchange->request.query, "x=1&y=2");
  EXPECT_EQ(ask({}, {.method = http::Method::connect, .query = query, .upgrade = "websocket"}), 0);
  EXPECT_EQ(ask(stream, {.query = query}), 0);
  EXPECT_EQ(exchange->request.target, "/path?x=1&y=2");
  const std::string repeated = "access_token=" + good + "&%61ccess_token=" + good;
  EXPECT_EQ(ask({}, {.query = repeated, .upgrade = "websocket"}), 0);
  EXPECT_EQ(passed(), "/path");
  const std::string different = "access_token=" + good + "&%61ccess_token=" + other;
  EXPECT_EQ(ask({}, {.query = different, .upgrade = "websocket"}), 400);
  EXPECT_EQ(ask({}, {.query = "access_token=%4", .upgrade = "websocket"}), 401);
  // Elsewhere it does not count.
  EXPECT_EQ(ask({}, {.query = query}), 401);
  EXPECT_EQ(ask({{"Accept", "*/*"}}, {.query = query}), 401);
  EXPECT_EQ(ask({{"Accept", "text/event-streams"}}, {.query = query}), 401);
  EXPECT_EQ(ask(stream, {.method = http::Method::post, .query = query}), 401);
  EXPECT_EQ(ask({}, {.query = query, .upgrade = "h2c"}), 401);
  EXPECT_EQ(refusals(Refusal::missing), 5u);
}

TEST_F(JwtFromTest, AParameterThatDoesNotCountIsRemovedToo) {
  from = {"header.authorization", "query.access_token", "query.t"};
  options.pass = true;
  const std::string more = query + "&t=3";
  EXPECT_EQ(ask({{"Authorization", bearer}}, {.query = more}), 0);
  EXPECT_EQ(passed(), "/path?x=1&y=2\nAuthorization: " + bearer);
  EXPECT_EQ(exchange->request.query, "x=1&y=2");
}

TEST_F(JwtFromTest, PassesTokensOn) {
  from = {"header.x-token", "cookie.session"};
  options.pass = true;
  EXPECT_EQ(ask({{"Cookie", cookie}, {"X-Token", good}}), 0);
  EXPECT_EQ(passed(), "/path\nCookie: " + cookie + "\nX-Token: " + good);
}

TEST_F(JwtFromTest, Optional) {
  from = {"cookie.session", "query.access_token"};
  options.optional = true;
  EXPECT_EQ(ask({}, {.method = http::Method::post, .query = query}), 0);
  EXPECT_EQ(passed(), "/path?x=1&y=2");
  EXPECT_EQ(http::claims_of(*exchange), nullptr);
  EXPECT_EQ(ask({{"Cookie", "session="}}), 401);
  EXPECT_EQ(ask({{"Cookie", cookie}}, {.method = http::Method::post}), 403);
}

TEST_F(JwtPolicyTest, WithoutKeysAgain) {
  EXPECT_EQ(ask("Bearer " + good), "");
  keys->publish(nullptr);
  EXPECT_EQ(ask("Bearer " + good), "503 ") << "although it was in the cache";
  keys->publish(set_of(secret));
  EXPECT_EQ(ask("Bearer " + good), "");
}

}  // namespace
}  // namespace sluice::gateway::jwt
