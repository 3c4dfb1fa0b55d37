#include "http/claims.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

using Kind = Claim::Kind;

TEST(Claims, EveryKind) {
  const auto claims = Claims::parse(
      R"( { "sub" : "a\u00e9\"b", "n": -42, "big": 18446744073709551615, "real": 1.5, "yes": true, "no": false,
            "nothing": null, "list": [ "x", 7, [true] , {"a": 1} ], "empty": [], "o": { "p": { "q": "deep" } } } )");
  ASSERT_TRUE(claims);
  const auto text = [&](std::string_view path, Kind kind) -> std::string {
    const Claim* claim = claims->find(path);
    if (claim == nullptr) return "(none)";
    EXPECT_EQ(claim->kind, kind) << path;
    EXPECT_EQ(claim->path, path);
    return std::string(claim->text);
  };
  EXPECT_EQ(text("sub", Kind::string), "a\u00e9\"b");
  EXPECT_EQ(text("n", Kind::number), "-42");
  EXPECT_EQ(text("big", Kind::number), "18446744073709551615");
  EXPECT_EQ(text("real", Kind::number), "1.5");
  EXPECT_EQ(text("yes", Kind::boolean), "true");
  EXPECT_EQ(text("no", Kind::boolean), "false");
  EXPECT_EQ(text("nothing", Kind::null), "null");
  EXPECT_EQ(text("list", Kind::array), R"(["x",7,[true],{"a":1}])");
  EXPECT_EQ(text("empty", Kind::array), "[]");
  EXPECT_EQ(text("o", Kind::object), R"({"p":{"q":"deep"}})");
  EXPECT_EQ(text("o.p", Kind::object), R"({"q":"deep"})");
  EXPECT_EQ(text("o.p.q", Kind::string), "deep");
  for (const char* none : {"", "su", "subb", "o.", "o.q", ".", "list.a", "list.0", "o.p.q.r", "SUB"}) {
    EXPECT_EQ(claims->find(none), nullptr) << none;
  }
}

TEST(Claims, ItemsOfArrays) {
  const auto claims = Claims::parse(R"({"roles":["admin","user"],"mixed":[1,null,["x"],{"a":2}],"none":[]})");
  ASSERT_TRUE(claims);
  const auto roles = claims->find("roles")->items;
  ASSERT_EQ(roles.size(), 2u);
  EXPECT_EQ(roles[0].text, "admin");
  EXPECT_EQ(roles[1].text, "user");
  EXPECT_EQ(roles[1].kind, Kind::string);
  EXPECT_EQ(roles[1].path, "");
  const auto mixed = claims->find("mixed")->items;
  ASSERT_EQ(mixed.size(), 4u);
  EXPECT_EQ(mixed[0].kind, Kind::number);
  EXPECT_EQ(mixed[1].kind, Kind::null);
  ASSERT_EQ(mixed[2].items.size(), 1u);
  EXPECT_EQ(mixed[2].items[0].text, "x");
  EXPECT_EQ(mixed[3].kind, Kind::object);
  EXPECT_EQ(mixed[3].text, R"({"a":2})");
  EXPECT_TRUE(claims->find("none")->items.empty());
}

// Issuers use names with dots, such as "https://example.com/roles".
TEST(Claims, ANameWithDotsGoesBeforeNestedOnes) {
  const auto claims = Claims::parse(R"({"a":{"b.c":"inner","b":{"c":"deepest"}},"a.b":"outer","x.y/z":"named"})");
  ASSERT_TRUE(claims);
  EXPECT_EQ(claims->find("a.b")->text, "outer");
  EXPECT_EQ(claims->find("a.b.c")->text, "inner");
  EXPECT_EQ(claims->find("x.y/z")->text, "named");
}

TEST(Claims, WhatIsNoPayload) {
  for (const char* json :
       {"", " ", "null", "[]", "1", "\"a\"", "{", "{}x", "{\"a\":1,}", "{\"a\":01}", "{'a':1}", "{\"a\":\"\xff\"}",
        "{\"a\":1}{\"a\":1}", "{\"a\":1e999}", "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}",
        "{\"o\":{\"a\":1,\"a\":2}}", "{\"l\":[{\"a\":1,\"a\":2}]}", "{\"l\":[{\"o\":[{\"a\":1,\"a\":2}]}]}"}) {
    EXPECT_FALSE(Claims::parse(json)) << json;
  }
  EXPECT_TRUE(Claims::parse("{}"));
  EXPECT_TRUE(Claims::parse(R"({"a":{"x":1},"b":{"x":1},"l":[{"x":1},{"x":1}]})"));
}

TEST(Claims, Limits) {
  const auto nested = [](std::size_t depth, const std::string& open, const std::string& close) {
    std::string json;
    for (std::size_t i = 0; i < depth; ++i) json += open;
    json += "1";
    for (std::size_t i = 0; i < depth; ++i) json += close;
    return json;
  };
  EXPECT_TRUE(Claims::parse(nested(Claims::max_depth, "{\"a\":", "}")));
  EXPECT_FALSE(Claims::parse(nested(Claims::max_depth + 1, "{\"a\":", "}")));
  EXPECT_TRUE(Claims::parse("{\"a\":" + nested(Claims::max_depth - 1, "[", "]") + "}"));
  EXPECT_FALSE(Claims::parse("{\"a\":" + nested(Claims::max_depth, "[", "]") + "}"));
  EXPECT_FALSE(Claims::parse("{\"a\":[" + nested(Claims::max_depth - 1, "{\"a\":", "}") + "]}"));
  EXPECT_FALSE(Claims::parse("{\"a\":[" + nested(500, "{\"a\":[", "]}") + "]}"));

  // A short token must not expand to megabytes of paths.
  std::string wide = "{\"" + std::string(4000, 'n') + "\":{";
  for (int i = 0; i < 500; ++i) wide += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
  EXPECT_FALSE(Claims::parse(wide + "}}"));
  const auto small = Claims::parse(R"({"sub":"x"})");
  const auto large = Claims::parse("{\"sub\":\"" + std::string(5000, 'x') + "\"}");
  EXPECT_GE(large->bytes(), small->bytes() + 4999);
}

}  // namespace
}  // namespace sluice::http
