#include "http/websocket/handshake.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http::websocket {
namespace {

struct Asked {
  std::vector<Field> fields = {
      {"Host", "example.com"}, {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}, {"Sec-WebSocket-Version", "13"}};
  Method method = Method::get;
  Version version = Version::http11;
  std::string_view upgrade = "websocket";
  std::string_view authority = "example.com";

  Asked& with(std::string_view name, std::string_view value) {
    fields.push_back({name, value});
    return *this;
  }
  Asked& without(std::string_view name) {
    std::erase_if(fields, [name](const Field& field) { return same_name(field.name, name); });
    return *this;
  }
  [[nodiscard]] std::expected<Handshake, Response> judge(const HandshakePolicy& policy = {}) const {
    Request request;
    request.method = method;
    request.version = version;
    request.upgrade = upgrade;
    request.authority = authority;
    request.fields = fields;
    return judge_handshake(request, policy);
  }
  [[nodiscard]] int status(const HandshakePolicy& policy = {}) const {
    auto judged = judge(policy);
    return judged ? 101 : judged.error().status;
  }
};

TEST(Handshake, TheExampleOfRfc6455) {
  EXPECT_EQ(accept_for("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  const auto judged = Asked().judge();
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(judged->protocol, "");
  EXPECT_EQ(judged->extensions, "");
  EXPECT_FALSE(judged->deflate);
}

TEST(Handshake, KeysOfOurOwnAreRandom) {
  const std::string key = make_key();
  EXPECT_EQ(key.size(), 24u);
  EXPECT_TRUE(key.ends_with("=="));
  EXPECT_NE(key, make_key());
}

TEST(Handshake, WhatIsNoWebSocketRequestHearsOf426) {
  Asked plain;
  plain.upgrade = "";
  auto judged = plain.judge();
  ASSERT_FALSE(judged);
  EXPECT_EQ(judged.error().status, 426);
  EXPECT_EQ(judged.error().fields.get("Sec-WebSocket-Version"), "13");
  EXPECT_EQ(judged.error().fields.get("Upgrade"), "websocket");
  EXPECT_EQ(judged.error().fields.get("Connection"), "upgrade");
  plain.upgrade = "h2c";
  EXPECT_EQ(plain.status(), 426);
  plain.upgrade = "h2c, WebSocket";
  EXPECT_EQ(plain.status(), 101);
  plain.method = Method::head;
  EXPECT_EQ(plain.status(), 426);
}

TEST(Handshake, TheVersionIsThirteen) {
  EXPECT_EQ(Asked().without("Sec-WebSocket-Version").status(), 426);
  for (const char* version : {"", "8", "12", "14", "013", "13, 8", "x"}) {
    EXPECT_EQ(Asked().without("Sec-WebSocket-Version").with("Sec-WebSocket-Version", version).status(), 426) << version;
  }
  EXPECT_EQ(Asked().with("Sec-WebSocket-Version", "13").status(), 426);
}

TEST(Handshake, TheKeyIsSixteenBytes) {
  EXPECT_EQ(Asked().without("Sec-WebSocket-Key").status(), 400);
  for (const char* key : {"", "abc", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQ===", "dGhlIHNhbXBsZSBub25jZ===",
                          "dGhlIHNhbXBsZSBub25jZQ+=", "dGhlIHNhbXBsZSBub!5jZQ=="}) {
    EXPECT_EQ(Asked().without("Sec-WebSocket-Key").with("Sec-WebSocket-Key", key).status(), 400) << key;
  }
  EXPECT_EQ(Asked().with("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==").status(), 400);
}

TEST(Handshake, WithoutAListOnlyTheSameOriginPasses) {
  EXPECT_EQ(Asked().with("Origin", "http://example.com").status(), 101);
  EXPECT_EQ(Asked().with("Origin", "https://EXAMPLE.com").status(), 101);
  for (const char* origin : {"http://evil.example", "http://example.com.evil.example", "http://example.com:81", "null",
                             "", "example.com", "file://", "http://", "chrome-extension://example.com"}) {
    EXPECT_EQ(Asked().with("Origin", origin).status(), 403) << origin;
  }
  EXPECT_EQ(Asked().with("Origin", "http://example.com").with("Origin", "http://example.com").status(), 403);
}

TEST(Handshake, SameOrigin) {
  EXPECT_TRUE(is_same_origin("http://a", "a:80"));
  EXPECT_TRUE(is_same_origin("https://a", "a:443"));
  EXPECT_TRUE(is_same_origin("https://a:443", "a"));
  EXPECT_TRUE(is_same_origin("http://a:8080", "a:8080"));
  EXPECT_TRUE(is_same_origin("http://[::1]:8080", "[::1]:8080"));
  EXPECT_FALSE(is_same_origin("http://a", "a:443"));
  EXPECT_FALSE(is_same_origin("http://a:8080", "a"));
  EXPECT_FALSE(is_same_origin("ftp://a", "a"));
  EXPECT_FALSE(is_same_origin("http://", ""));
}

TEST(Handshake, AListOfOrigins) {
  const HandshakePolicy policy{
      .origins = {"https://example.org", "http://localhost:3000"}, .protocols = {}, .deflate = {}};
  EXPECT_EQ(Asked().status(policy), 101);
  EXPECT_EQ(Asked().with("Origin", "https://example.org").status(policy), 101);
  EXPECT_EQ(Asked().with("Origin", "http://localhost:3000").status(policy), 101);
  EXPECT_EQ(Asked().with("Origin", "http://example.com").status(policy), 403);
  EXPECT_EQ(Asked().with("Origin", "http://example.org").status(policy), 403);
  const HandshakePolicy any{.origins = {"*"}, .protocols = {}, .deflate = {}};
  EXPECT_EQ(Asked().with("Origin", "null").status(any), 101);
}

TEST(Handshake, TheFirstProtocolOfTheClientThatIsSpoken) {
  const HandshakePolicy policy{.origins = {}, .protocols = {"chat", "superchat"}, .deflate = {}};
  const auto protocol = [&](Asked& asked) { return asked.judge(policy)->protocol; };
  EXPECT_EQ(protocol(Asked().with("Sec-WebSocket-Protocol", "soap, superchat , chat")), "superchat");
  EXPECT_EQ(protocol(Asked().with("Sec-WebSocket-Protocol", "soap").with("sec-websocket-protocol", "chat")), "chat");
  EXPECT_EQ(protocol(Asked().with("Sec-WebSocket-Protocol", "soap")), "");
  EXPECT_EQ(protocol(Asked().with("Sec-WebSocket-Protocol", "CHAT")), "");
  EXPECT_EQ(Asked().with("Sec-WebSocket-Protocol", "a b").status(policy), 400);
}

TEST(Handshake, Extensions) {
  Asked asked = Asked().with("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits");
  EXPECT_EQ(asked.judge()->extensions, "");
  EXPECT_FALSE(asked.judge()->deflate);
  const HandshakePolicy policy{.origins = {}, .protocols = {}, .deflate = DeflatePolicy{.context_takeover = true}};
  EXPECT_EQ(asked.judge(policy)->extensions, "permessage-deflate");
  EXPECT_TRUE(asked.judge(policy)->deflate);
  EXPECT_EQ(Asked().with("Sec-WebSocket-Extensions", "=").status(), 400);
}

TEST(Handshake, OverHttp2ThereIsNoKey) {
  Asked asked;
  asked.method = Method::connect;
  asked.version = Version::http2;
  asked.without("Sec-WebSocket-Key");
  const auto judged = asked.judge();
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->accept, "");
  asked.method = Method::get;
  const auto refused = asked.judge();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 400) << "426 needs an Upgrade field";
  EXPECT_EQ(refused.error().fields.get("Connection"), "");
  EXPECT_EQ(refused.error().fields.get("Upgrade"), "");
}

TEST(Handshake, OverHttp2TheRestIsJudgedAsOverHttp1) {
  Asked asked;
  asked.method = Method::connect;
  asked.version = Version::http2;
  EXPECT_EQ(asked.judge()->accept, "") << "a key means nothing";
  EXPECT_EQ(Asked(asked).without("Sec-WebSocket-Version").judge().error().status, 400);
  const auto version = Asked(asked).without("Sec-WebSocket-Version").with("sec-websocket-version", "8").judge();
  EXPECT_EQ(version.error().status, 400);
  EXPECT_EQ(version.error().fields.get("Sec-WebSocket-Version"), "13");
  EXPECT_EQ(Asked(asked).with("origin", "https://example.com").status(), 101);
  EXPECT_EQ(Asked(asked).with("origin", "https://example.org").status(), 403);
  const HandshakePolicy policy{
      .origins = {}, .protocols = {"chat"}, .deflate = DeflatePolicy{.context_takeover = true}};
  asked.with("sec-websocket-protocol", "soap, chat").with("sec-websocket-extensions", "permessage-deflate");
  EXPECT_EQ(asked.judge(policy)->protocol, "chat");
  EXPECT_EQ(asked.judge(policy)->extensions, "permessage-deflate");
  for (const char* protocol : {"", "connect-udp", "webtransport", "websocket, x"}) {
    asked.upgrade = protocol;
    EXPECT_EQ(asked.status(policy), 501) << protocol;
  }
}

}  // namespace
}  // namespace sluice::http::websocket
