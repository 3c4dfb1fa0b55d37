#include "gateway/proxy/fields.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gateway/changed_request.h"
#include "gateway/proxy/path_change.h"
#include "http/client_address.h"
#include "http/filter.h"
#include "http/h1/parser.h"
#include "http/target.h"

namespace sluice::gateway {
namespace {

using Kind = http::h1::BodyFraming::Kind;

struct NoBody final : http::BodyReader {
  core::Task<Result<std::string_view>> read() override { co_return std::string_view{}; }
};

// The head of a request, without our Via, which becomes `via`.
std::string written(const http::client::RequestHead& head, std::string& via) {
  Buffer out;
  EXPECT_TRUE(append_request(out, head));
  std::string text(out.view());
  const auto begin = text.find("Via: ");
  const auto end = text.find("\r\n", begin);
  if (begin == text.npos || end == text.npos) return "no Via: " + text;
  via = text.substr(begin + 5, end - begin - 5);
  EXPECT_TRUE(via.ends_with(" " + via_name())) << via;
  return text.erase(begin, end + 2 - begin);
}

std::string written(const http::client::RequestHead& head) {
  std::string via;
  return written(head, via);
}

// The head that the gateway forwards for a head that a client has sent from 10.0.0.1.
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
  return written(*forwarded.make(request, "server:1", {}));
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
  // A client's own forwarding fields are not forwarded.
  EXPECT_EQ(forward("GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\nx-forwarded-host: b\r\n"
                    "X-Forwarded-Port: 1\r\nForwarded: for=6.6.6.6\r\n\r\n"),
            forward("GET /a HTTP/1.1\r\nHost: a\r\n\r\n"));
  // The same holds for names that a server could take for these.
  EXPECT_EQ(
      forward("GET /a HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 6.6.6.6\r\nx-forwarded_proto: https\r\n"
              "X_FORWARDED_Some_Name_That_Is_Longer_Than_All_Others: 1\r\nX-Real-IP: 6.6.6.6\r\nX_Real-IP: 6.6.6.6\r\n"
              "X.Real.IP: 6.6.6.6\r\nX.Forwarded-Prefix: /a\r\nX~Forwarded!Host: b\r\nTransfer|Encoding: chunked\r\n"
              "Content_Length: 7\r\nTransfer_Encoding: chunked\r\nX_Own: 1\r\nHost_: 2\r\nX_Real_IP_: 3\r\n\r\n"),
      forward("GET /a HTTP/1.1\r\nHost: a\r\nX_Own: 1\r\nHost_: 2\r\nX_Real_IP_: 3\r\n\r\n"));
}

TEST(ForwardedRequest, HasTheHostOfTheServerIfTheClientsIsNotPreserved) {
  http::Request request;
  request.method_text = "GET";
  request.target = request.path = request.segments = "/a";
  request.authority = "example.org";
  ForwardedRequest forwarded;
  EXPECT_EQ(written(*forwarded.make(request, "server:1", {.preserve_host = false})),
            "GET /a HTTP/1.1\r\nHost: server:1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: example.org\r\n\r\n");
}

// The request is as the HTTP/2 server creates it.
TEST(ForwardedRequest, AWebSocketOverHttp2IsOneOverHttp1) {
  const http::Field fields[] = {{"sec-websocket-version", "13"}, {"sec-websocket-key", "of the client"}, {"a", "b"}};
  http::Request request;
  request.method = http::Method::connect;
  request.method_text = "CONNECT";
  request.version = http::Version::http2;
  request.target = request.path = request.segments = "/chat";
  request.authority = "example.org";
  request.fields = fields;
  request.upgrade = "websocket";
  ForwardedRequest forwarded;
  std::string via;
  const std::string text = written(*forwarded.make(request, "server:1", {.upgrade = request.upgrade}), via);
  EXPECT_EQ(via, "2 " + via_name());
  const std::string key(forwarded.websocket_key());
  EXPECT_EQ(key.size(), 24u);
  EXPECT_EQ(text,
            "GET /chat HTTP/1.1\r\nHost: example.org\r\nsec-websocket-version: 13\r\na: b\r\n"
            "X-Forwarded-Proto: http\r\nX-Forwarded-Host: example.org\r\nSec-WebSocket-Key: " +
                key + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  (void)forwarded.make(request, "server:1", {.upgrade = request.upgrade});
  EXPECT_NE(forwarded.websocket_key(), key);
  request.upgrade = {};
  (void)forwarded.make(request, "server:1", {.upgrade = request.upgrade});
  EXPECT_EQ(forwarded.websocket_key(), "");
}

TEST(ForwardedRequest, GoesOnWithWhatATrustedProxySays) {
  http::TrustedProxies proxies;
  EXPECT_TRUE(proxies.addresses.add("10.0.0.1"));
  proxies.addresses.seal();
  proxies.unix_sockets = true;
  const auto through = [&](std::string fields, std::string_view peer) {
    const std::string received = "GET /a HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
    http::Exchange exchange;
    http::Request& request = exchange.request;
    http::h1::RequestParser parser(request);
    EXPECT_EQ(parser.parse(received).state, http::h1::Parsed::State::done);
    http::set_client(exchange, peer, false, &proxies);
    ForwardedRequest forwarded;
    const std::string text = written(*forwarded.make(request, "server:1", {}));
    return text.substr(text.find("Host: a\r\n") + 9);
  };
  const std::string said =
      "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n"
      "X-Forwarded-Host: b\r\nX-Forwarded-Port: 7\r\n";
  EXPECT_EQ(through(said, "10.0.0.1"),
            "X-Forwarded-Port: 7\r\nX-Forwarded-For: 6.6.6.6, 1.2.3.4, 10.0.0.1\r\nX-Forwarded-Proto: https\r\n"
            "X-Forwarded-Host: b\r\n\r\n");
  EXPECT_EQ(through("", "10.0.0.1"),
            "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n");
  EXPECT_EQ(through("X-Forwarded-For: 1.2.3.4\r\n", ""),
            "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n");
  EXPECT_EQ(through(said, "10.0.0.2"),
            "X-Forwarded-For: 10.0.0.2\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n");
}

TEST(ForwardedRequest, LeavesOutTheFieldThatNamesTheClientUnlessAProxySentIt) {
  http::TrustedProxies proxies{.addresses = {}, .client_field = "CF-Connecting-IP"};
  EXPECT_TRUE(proxies.addresses.add("10.0.0.1"));
  proxies.addresses.seal();
  const auto from = [&](std::string_view peer) {
    http::Exchange exchange;
    http::Request& request = exchange.request;
    http::h1::RequestParser parser(request);
    EXPECT_EQ(parser
                  .parse("GET /a HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\ncf-connecting-ip: 1.2.3.4\r\n"
                         "CF_Connecting-IP: 6.6.6.6\r\n\r\n")
                  .state,
              http::h1::Parsed::State::done);
    http::set_client(exchange, peer, false, &proxies);
    ForwardedRequest forwarded;
    const std::string text = written(*forwarded.make(request, "server:1", {.client_field = proxies.client_field}));
    return text.substr(text.find("Host: a\r\n") + 9);
  };
  EXPECT_EQ(from("10.0.0.1"),
            "cf-connecting-ip: 1.2.3.4\r\nX-Forwarded-For: 1.2.3.4, 10.0.0.1\r\nX-Forwarded-Proto: http\r\n"
            "X-Forwarded-Host: a\r\n\r\n");
  EXPECT_EQ(from("10.0.0.2"), "X-Forwarded-For: 10.0.0.2\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n");
}

TEST(ForwardedRequest, PassesOnWhatPoliciesHaveSet) {
  const std::vector<http::Field> fields{{"Connection", "X-User, X-Real-IP, X-Other"},
                                        {"X-Other", "o"},
                                        {"X-Real-IP", "6.6.6.6"},
                                        {"X-User", "root"},
                                        {"X-Real-IP", "1.2.3.4"},
                                        {"X-User", "ada"}};
  http::Request request;
  request.method_text = "GET";
  request.target = request.path = request.segments = "/a";
  request.fields = fields;
  request.own_fields = 2;
  for (const bool from_proxy : {false, true}) {
    request.from_proxy = from_proxy;
    ForwardedRequest forwarded;
    EXPECT_EQ(
        written(*forwarded.make(request, "server:1", {})),
        "GET /a HTTP/1.1\r\nHost: server:1\r\nX-Real-IP: 1.2.3.4\r\nX-User: ada\r\nX-Forwarded-Proto: http\r\n\r\n");
  }
}

TEST(ForwardedRequest, LeavesOutWhatIsOfTheConnection) {
  EXPECT_EQ(forward("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close, X-A, TE\r\nConnection: x-b,\r\nKeep-Alive: 5\r\n"
                    "Proxy-Connection: close\r\nTE: gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\nX-a: 1\r\nX-B: 2\r\n"
                    "Proxy: c\r\nX-C: 3\r\n\r\n"),
            forward("GET /a HTTP/1.1\r\nHost: a\r\nX-C: 3\r\n\r\n"));
  // A client cannot remove the fields that the gateway sets.
  EXPECT_EQ(forward("GET /a HTTP/1.1\r\nHost: a\r\nConnection: X-Forwarded-For, Host\r\n\r\n"),
            forward("GET /a HTTP/1.1\r\nHost: a\r\n\r\n"));
}

TEST(ForwardedRequest, SaysThatTheClientTakesTrailers) {
  const std::string with = forward("GET /a HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nTE: gzip;q=0.5, trailers\r\n\r\n");
  EXPECT_TRUE(with.ends_with("X-Forwarded-Host: a\r\nConnection: TE\r\nTE: trailers\r\n\r\n")) << with;
}

TEST(ForwardedRequest, SaysHowOftenItHasPassed) {
  for (const auto& [version, text] : {std::pair(http::Version::http10, "1.0 "), {http::Version::http11, "1.1 "}}) {
    http::Request request;
    request.method_text = "GET";
    request.target = request.path = request.segments = "/a";
    request.version = version;
    ForwardedRequest forwarded;
    std::string via;
    (void)written(*forwarded.make(request, "a", {}), via);
    EXPECT_EQ(via, text + via_name());
  }
  const std::string two = "1.1 other, 2 " + via_name() + " ,1.0 " + via_name();
  const std::string not_ours = "1.1 " + via_name() + "x, 1.1 sluice";
  const http::Field fields[] = {{"Via", two}, {"via", not_ours}, {"VIA", via_name()}, {"X-Via", two}};
  http::Request request;
  request.fields = fields;
  EXPECT_EQ(count_passes(request), 3u);
  request.fields = {};
  EXPECT_EQ(count_passes(request), 0u);
}

TEST(ForwardedRequest, EmptySegmentsMayBeKept) {
  const auto target = [](std::string_view sent, const PathChange* change = nullptr) {
    const std::string received = "GET " + std::string(sent) + " HTTP/1.1\r\nHost: a\r\n\r\n";
    http::Request request;
    http::h1::RequestParser parser(request);
    EXPECT_EQ(parser.parse(received).state, http::h1::Parsed::State::done) << sent;
    ForwardedRequest forwarded;
    const auto* const head = forwarded.make(request, "b", {.change = change, .keeps_slashes = true});
    return head != nullptr ? std::string(head->target) : "";
  };
  EXPECT_EQ(target("/p/https://a.example//b?c=//"), "/p/https://a.example//b?c=//");
  EXPECT_EQ(target("/p///%61//"), "/p///a//");
  EXPECT_EQ(target("/p/./a/../b"), "/p/b");
  // Servers resolve the dots behind an empty segment in different ways.
  for (const char* refused : {"//p", "//", "/p//../a", "/p/./a//b", "/p//%2e%2E/a", "/p//a%2F../b", "/%2e//a"}) {
    EXPECT_EQ(target(refused), "") << refused;
  }
  RouteOptions options;
  options.strip.emplace("/p/q");
  const auto change = *PathChange::make(options);
  EXPECT_EQ(target("/p/q/a//b", change.get()), "/a//b");
  for (const char* refused : {"/p/q//a", "/p//q/a"}) EXPECT_EQ(target(refused, change.get()), "") << refused;
}

TEST(ForwardedRequest, ConditionsAreAboutTheServersTags) {
  using http::compress::Coding;
  const auto condition = [](std::string_view name, std::string_view value, std::string_view accepted,
                            std::span<const Coding> codings) {
    http::Request request;
    request.method_text = "GET";
    request.target = request.path = request.segments = "/a";
    const http::Field fields[] = {{"Accept-Encoding", accepted}, {name, value}, {"If-Match", "\"a;br\""}};
    request.fields = fields;
    ForwardedRequest forwarded;
    const auto& sent = forwarded.make(request, "a", {.codings = codings})->fields;
    EXPECT_EQ(sent[2].value, codings.empty() ? "\"a;br\"" : "\"a\"");
    return std::string(sent[1].value);
  };
  const std::vector<Coding> codings{Coding::brotli, Coding::gzip};
  for (const char* name : {"If-Match", "if-none-match"}) {
    EXPECT_EQ(condition(name, "\"a;gzip\"", "gzip", codings), "\"a\"");
    EXPECT_EQ(condition(name, "\"a;br\", W/\"b;c;gzip\",\"d\", \"x;csv\", \"gzip\", \"e;gzip;f\"", "gzip, br", codings),
              "\"a\", W/\"b;c\",\"d\", \"x;csv\", \"gzip\", \"e;gzip;f\"");
    for (const char* same : {"*", "\"a;zstd\"", "\"a", "a;gzip", ";", "\""}) {
      EXPECT_EQ(condition(name, same, "gzip", codings), same);
    }
    EXPECT_EQ(condition(name, "\"a;gzip\"", "gzip", {}), "\"a;gzip\"");
  }
  EXPECT_EQ(condition("If-Match", "\"a;gzip\"", "br", codings), "\"a\"") << "the server's version is the same";
  EXPECT_EQ(condition("If-None-Match", "\"a;gzip\"", "br", codings), "\"a;gzip\"");
  EXPECT_EQ(condition("If-Range", "\"a;gzip\"", "gzip", codings), "\"a;gzip\"");
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
  // An escape of a reserved character may mean something else than the character (RFC 3986, 2.2).
  EXPECT_EQ(line_of("/%21%24%26%27%28%29%2A%2b%2C%3b%3D%3a%40/!$&'()*+,;=:@"),
            "/%21%24%26%27%28%29%2A%2B%2C%3B%3D%3A%40/!$&'()*+,;=:@");
  EXPECT_EQ(line_of("/%2B/../%7e%2B/c/./.."), "/~%2B/");
  EXPECT_EQ(line_of("http://a/%2B"), "/%2B");
  EXPECT_EQ(line_of("http://a/b/../c?d"), "/c?d");
  EXPECT_EQ(line_of("http://a"), "/");
}

// Routes and policies have decided about request.segments, so a server must find the same segments in the path that it
// gets.
TEST(ForwardedRequest, EverySpellingStaysThePathThatWasMatched) {
  constexpr std::string_view pieces[] = {"/", "/", ".", "..", "%2e", "%2F", "a", "%61", "%2B", "+", "!", "%25", "b%20"};
  std::mt19937 random(1);
  int compared = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string target = "/";
    for (unsigned n = random() % 9; n != 0; --n) target += pieces[random() % std::size(pieces)];
    http::Request request;
    http::h1::RequestParser parser(request);
    const std::string head = "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n";
    if (parser.parse(head).state != http::h1::Parsed::State::done) continue;  // leads above the root
    ForwardedRequest forwarded;
    const auto* made = forwarded.make(request, "server:1", {});
    if (made == nullptr) continue;  // a dot segment beside an encoded slash
    std::string found(made->target.size(), '\0');
    const http::DecodedPath decoded = http::decode_path(made->target, found.data());
    ASSERT_EQ(decoded.fault, http::DecodedPath::Fault::none) << target;
    ASSERT_EQ(found.substr(0, decoded.size), request.segments) << target << " became " << made->target;
    ++compared;
  }
  EXPECT_GT(compared, 10'000);
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

// The value that a client of http://a gets if a route strips `prefix`.
std::string restored(std::string_view name, std::string_view value, std::string prefix = "/b/c",
                     const http::Request* request = nullptr) {
  RouteOptions options;
  options.strip.emplace(std::move(prefix));
  http::Request plain;
  plain.authority = "a";
  http::FieldList list;
  list.add(name, value);
  const auto change = *PathChange::make(options);
  restore_references({.prefix_of = change.get()}, request != nullptr ? *request : plain, list);
  return std::string(list.items()[0].value);
}

TEST(RestoreReferences, TheServersOwnAddress) {
  const auto restored = [](std::string_view value, bool client_is_secure, bool server_is_secure = false,
                           const PathChange* change = nullptr, std::string_view server = "10.0.0.1:3000") {
    http::Request request;
    request.authority = "a.example";
    request.secure = client_is_secure;
    http::FieldList list;
    list.add("X", "http://10.0.0.1:3000/");
    list.add("Content-Location", value);
    list.add("Location", value);
    restore_references({.prefix_of = change, .server_host = server, .server_is_secure = server_is_secure}, request,
                       list);
    EXPECT_EQ(list.items()[0].value, "http://10.0.0.1:3000/");
    EXPECT_EQ(list.items()[1].value, list.items()[2].value);
    return std::string(list.items()[2].value);
  };
  EXPECT_EQ(restored("http://10.0.0.1:3000/x?y#z", false), "http://a.example/x?y#z");
  EXPECT_EQ(restored("HTTP://10.0.0.1:3000", true), "https://a.example/");
  EXPECT_EQ(restored("http://10.0.0.1:3000//evil.example/", true), "https://a.example//evil.example/");
  EXPECT_EQ(restored("https://10.0.0.1:3000/x", false, true), "http://a.example/x");
  EXPECT_EQ(restored("https://b:443/x", true, true, nullptr, "b"), "https://a.example/x");
  EXPECT_EQ(restored("http://a.example/x", true), "https://a.example/x") << "the application does not know of TLS";
  EXPECT_EQ(restored("http://A.example:80?x", true), "https://a.example/?x");
  for (const char* same : {"http://10.0.0.1/x", "https://10.0.0.1:3000/x", "http://10.0.0.1:3001/x", "http://b/x", "/x",
                           "//10.0.0.1:3000/x", "http://u@10.0.0.1:3000/", "x", "http://a.example:8080/x",
                           "http://a.example:443/x", "ftp://10.0.0.1:3000/x"}) {
    EXPECT_EQ(restored(same, true), same);
  }
  EXPECT_EQ(restored("https://a.example/x", false), "https://a.example/x") << "the client shall use TLS";
  for (const char* same : {"http://10.0.0.1:3000/x", "http://a.example/x"}) {
    EXPECT_EQ(restored(same, true, false, nullptr, ""), same) << "rewrite_location = false";
  }
  RouteOptions options;
  options.strip.emplace("/b");
  const auto change = *PathChange::make(options);
  EXPECT_EQ(restored("http://10.0.0.1:3000/x", false, false, change.get()), "http://a.example/b/x");
  EXPECT_EQ(restored("http://10.0.0.1:3000/b/x", false, false, change.get()), "http://a.example/b/x");
  EXPECT_EQ(restored("http://a.example", true, false, change.get()), "https://a.example/b/");
}

TEST(RestoreReferences, References) {
  for (const char* name : {"Location", "content-location"}) {
    EXPECT_EQ(restored(name, "/x?y=/z#w"), "/b/c/x?y=/z#w");
    EXPECT_EQ(restored(name, "/"), "/b/c/");
    EXPECT_EQ(restored(name, "/b/cx"), "/b/c/b/cx");
    EXPECT_EQ(restored(name, "/b"), "/b/c/b");
    EXPECT_EQ(restored(name, "http://a/x"), "http://a/b/c/x");
    EXPECT_EQ(restored(name, "HTTP://A:80"), "HTTP://A:80/b/c/");
    EXPECT_EQ(restored(name, "http://a?x=/y"), "http://a/b/c/?x=/y");
    for (const char* same : {"/b/c", "/b/c/x", "/b/c?x", "/b/c#x", "/%62/c/x", "http://a/b/c/x", "//a/x", "x", "", "?x",
                             "../x", "http", "https://a/x", "http://a:81/x", "http://u@a/x", "http://other/x"}) {
      EXPECT_EQ(restored(name, same), same);
    }
  }
  EXPECT_EQ(restored("Location", "/x", "/\u00fc"), "/%C3%BC/x");
  EXPECT_EQ(restored("Location", "/%c3%bc/x", "/\u00fc"), "/%c3%bc/x");
  EXPECT_EQ(restored("X-Location", "/x"), "/x");
}

TEST(RestoreReferences, TheHostIsTheOneThatTheClientUses) {
  const http::Field fields[] = {{"X-Forwarded-Host", "public.example"}};
  http::Request request;
  request.authority = "inner:443";
  request.secure = true;
  request.fields = fields;
  EXPECT_EQ(restored("Location", "https://inner/x", "/b", &request), "https://inner/b/x");
  EXPECT_EQ(restored("Location", "http://inner/x", "/b", &request), "http://inner/x");
  EXPECT_EQ(restored("Location", "https://public.example/x", "/b", &request), "https://public.example/x");
  request.from_proxy = true;
  EXPECT_EQ(restored("Location", "https://public.example/x", "/b", &request), "https://public.example/b/x");
}

TEST(RestoreReferences, Cookies) {
  const auto cookie = [](std::string_view value) { return restored("Set-Cookie", value); };
  EXPECT_EQ(cookie("n=v; Path=/; Secure"), "n=v; Path=/b/c; Secure");
  EXPECT_EQ(cookie("n=v;path = /x ;Secure"), "n=v;path = /b/c/x ;Secure");
  EXPECT_EQ(cookie("path=/v; Path=/x/"), "path=/v; Path=/b/c/x/");
  EXPECT_EQ(cookie("n=v; Path=/x; Path=/y"), "n=v; Path=/x; Path=/b/c/y") << "browsers use the last one";
  for (const char* same : {"n=v", "path=/v", "n=v; Path=", "n=v; Path", "n=v; Path=x", "n=v; Path=\"/x\"",
                           "n=v; Path=/b/c", "n=v; Path=/b/c/x", "n=v; Path=/x; Path=", "n=v; Xpath=/x", ";", "",
                           "__Host-n=v; Path=/", "__host-n=v; Path=/"}) {
    EXPECT_EQ(cookie(same), same);
  }
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

TEST(ForwardRequestTrailers, LeavesOutWhatAServerCouldTakeForAFieldOfTheHead) {
  struct SetsNothing final : http::FilterOf<SetsNothing> {};
  struct SetsUser final : http::FilterOf<SetsUser> {
    bool owns_field(std::string_view name) const override { return is_read_as(name, "X-User"); }
  };
  const std::vector<std::shared_ptr<http::Filter>> filters{std::make_shared<SetsNothing>(),
                                                           std::make_shared<SetsUser>()};
  http::Exchange exchange;
  EXPECT_FALSE(exchange.ask(filters).take());
  const std::vector<http::Field> trailers{{"X-Sum", "7"},    {"Content-Type", "a"}, {"Authorization", "a"},
                                          {"If-Match", "a"}, {"x_user", "b"},       {"Host", "a"},
                                          {"TE", "a"},       {"Cookie", "a"},       {"x_client_ip", "1.1.1.1"},
                                          {"X.User", "b"},   {"x.real.ip", "a"}};
  std::vector<http::Field> passed;
  forward_request_trailers(exchange, "X-Client-IP", trailers, passed);
  ASSERT_EQ(passed.size(), 1u);
  EXPECT_EQ(passed[0].value, "7");
}

TEST(ForwardedRequest, NeitherIsOneThatARewriteHasMadeSo) {
  RouteOptions options;
  options.rewrite.emplace();
  options.rewrite->match = {"^/v(.*)$"};
  options.rewrite->to = {"/w/\\1"};
  const auto change = *PathChange::make(options);
  const auto is_passed_on = [&](std::string_view path) {
    http::Request request;
    request.method_text = "GET";
    request.target = request.path = request.segments = path;
    ForwardedRequest forwarded;
    return forwarded.make(request, "server:1", {.change = change.get()}) != nullptr;
  };
  EXPECT_TRUE(is_passed_on("/v1/a;b"));
  for (const char* bad : {"/v..;/admin", "/v..\\admin"}) EXPECT_FALSE(is_passed_on(bad)) << bad;
}

TEST(ForwardedRequest, APathInWhichAnotherServerCouldResolveDotsIsNotPassedOn) {
  const auto is_passed_on = [](std::string_view segments) {
    http::Request request;
    std::string path(segments);
    std::ranges::replace(path, '\0', '/');
    request.method_text = "GET";
    request.target = request.path = path;
    request.segments = segments;
    ForwardedRequest forwarded;
    return forwarded.make(request, "server:1", {}) != nullptr;
  };
  using namespace std::string_view_literals;
  for (const auto bad : {"/a/..\0b"sv, "/a\0..\0b"sv, "/a\0.."sv, "/a/.\0b"sv, "/a/..;/b"sv, "/a/..;x=1"sv,
                         "/a/..\\..\\b"sv, "/a\\.."sv}) {
    EXPECT_FALSE(is_passed_on(bad)) << bad;
  }
  for (const auto good : {"/a/b\0c"sv, "/a;v=1/b"sv, "/a\\b"sv, "/..a\0b"sv, "/a/...\0b"sv, "/a;../b"sv, "/"sv}) {
    EXPECT_TRUE(is_passed_on(good)) << good;
  }
}

}  // namespace
}  // namespace sluice::gateway
