#include "gateway/proxy/fields.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "http/h1/parser.h"

namespace sluice::gateway {
namespace {

using Kind = http::h1::BodyFraming::Kind;

struct NoBody final : http::BodyReader {
  core::Task<Result<std::string_view>> read() override { co_return std::string_view{}; }
};

// The head that a server gets for one that a client has sent from 10.0.0.1.
std::string forward(std::string_view received, bool secure = false, bool has_body = false) {
  http::Request request;
  http::h1::RequestParser parser(request);
  parser.set_secure(secure);
  const auto parsed = parser.parse(received);
  EXPECT_EQ(parsed.state, http::h1::Parsed::State::done) << describe(parsed.reason);
  NoBody body;
  request.peer = "10.0.0.1";
  request.secure = secure;
  if (has_body) request.body = &body;
  ForwardedRequest forwarded;
  Buffer out;
  EXPECT_TRUE(append_request(out, forwarded.make(request, "server:1")));
  return std::string(out.view());
}

std::string line_of(std::string_view target) {
  const std::string text = forward("GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n");
  return text.substr(4, text.find(" HTTP/1.1\r\n") - 4);
}

TEST(ForwardedRequest, SaysWhomItComesFrom) {
  EXPECT_EQ(forward("GET /a HTTP/1.1\r\nHost: example.org:80\r\nA: b\r\n\r\n"),
            "GET /a HTTP/1.1\r\nHost: example.org:80\r\nA: b\r\nX-Forwarded-For: 10.0.0.1\r\n"
            "X-Forwarded-Proto: http\r\nX-Forwarded-Host: example.org:80\r\n\r\n");
  EXPECT_EQ(forward("GET /a HTTP/1.0\r\n\r\n", true),
            "GET /a HTTP/1.1\r\nHost: server:1\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: https\r\n\r\n");
  // What a client says of itself does not pass.
  EXPECT_EQ(forward("GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\nx-forwarded-host: b\r\n"
                    "X-Forwarded-Port: 1\r\nForwarded: for=6.6.6.6\r\n\r\n"),
            forward("GET /a HTTP/1.1\r\nHost: a\r\n\r\n"));
}

TEST(ForwardedRequest, LeavesOutWhatIsOfTheConnection) {
  EXPECT_EQ(
      forward("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close, X-A, TE\r\nConnection: x-b,\r\nKeep-Alive: 5\r\n"
              "Proxy-Connection: close\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\nX-a: 1\r\nX-B: 2\r\n"
              "Proxy: c\r\nTrailer: d\r\nX-C: 3\r\n\r\n"),
      forward("GET /a HTTP/1.1\r\nHost: a\r\nX-C: 3\r\n\r\n"));
  // Nobody has us leave out what we say ourselves.
  EXPECT_EQ(forward("GET /a HTTP/1.1\r\nHost: a\r\nConnection: X-Forwarded-For, Host\r\n\r\n"),
            forward("GET /a HTTP/1.1\r\nHost: a\r\n\r\n"));
}

TEST(ForwardedRequest, HasTheBodysLength) {
  const auto framing_of = [](std::string_view head, bool has_body) {
    const std::string text = forward(std::string(head) + "Host: a\r\nExpect: 100-continue\r\n\r\n", false, has_body);
    return text.substr(text.find("X-Forwarded-Host: a\r\n") + 21);
  };
  EXPECT_EQ(framing_of("POST / HTTP/1.1\r\nContent-Length: 5\r\n", true), "Content-Length: 5\r\n\r\n");
  EXPECT_EQ(framing_of("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", true),
            "Transfer-Encoding: chunked\r\n\r\n");
  EXPECT_EQ(framing_of("POST / HTTP/1.1\r\nContent-Length: 0\r\n", false), "Content-Length: 0\r\n\r\n");
  EXPECT_EQ(framing_of("PUT / HTTP/1.1\r\n", false), "Content-Length: 0\r\n\r\n");
  EXPECT_EQ(framing_of("GET / HTTP/1.1\r\n", false), "\r\n");
  EXPECT_EQ(framing_of("DELETE / HTTP/1.1\r\n", false), "\r\n");
}

// No server may read another path than the one that routes and policies have seen.
TEST(ForwardedRequest, HasThePathThatWasMatched) {
  for (const char* target : {"/", "/a", "/a/", "/a?b=%2f&c", "/a?", "/a~b-c._d/e:f@g!$&'()*+,;=", "/a?b/../c"}) {
    EXPECT_EQ(line_of(target), target);
  }
  EXPECT_EQ(line_of("/a/../b"), "/b");
  EXPECT_EQ(line_of("/a/%2e%2E/b?q"), "/b?q");
  EXPECT_EQ(line_of("//a///b/"), "/a/b/");
  EXPECT_EQ(line_of("/b/.."), "/");
  EXPECT_EQ(line_of("/./"), "/");
  EXPECT_EQ(line_of("/%61"), "/a");
  EXPECT_EQ(line_of("/a%2Fb%2f/c"), "/a%2Fb%2F/c");
  EXPECT_EQ(line_of("/a%3Fb%23c%20d%25e%0d%0a"), "/a%3Fb%23c%20d%25e%0D%0A");
  EXPECT_EQ(line_of("/%C3%A9"), "/%C3%A9");
  EXPECT_EQ(line_of("http://a/b/../c?d"), "/c?d");
  EXPECT_EQ(line_of("http://a"), "/");
}

TEST(ForwardFields, LeavesOutWhatIsOfTheConnection) {
  const http::Field fields[] = {{"Connection", "close, X-A"}, {"Keep-Alive", "5"},   {"X-A", "1"},   {"X-B", "2"},
                                {"Set-Cookie", "a=b"},        {"Set-Cookie", "c=d"}, {"Date", "now"}};
  http::FieldList list;
  forward_fields(fields, list);
  std::string text;
  for (const auto& [name, value] : list.items()) text.append(name).append("=").append(value).append(" ");
  EXPECT_EQ(text, "X-B=2 Set-Cookie=a=b Set-Cookie=c=d Date=now ");
}

TEST(ForwardTrailers, LeavesOutWhatWouldChangeTheMessage) {
  std::vector<http::Field> trailers = {
      {"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}, {"Host", "a"}, {"X-Sum", "7"}};
  http::FieldList list;
  forward_trailers(trailers, list);
  ASSERT_EQ(list.items().size(), 1u);
  EXPECT_EQ(list.items()[0].value, "7");
  trailers.assign(1000, {"A", "b"});
  http::FieldList bounded;
  forward_trailers(trailers, bounded);
  EXPECT_EQ(bounded.items().size(), 64u);
}

}  // namespace
}  // namespace sluice::gateway
