#include "http/h2/head.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http::h2 {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

class HeadTest : public testing::Test {
 public:
  Refusal finish(const Fields& fields) {
    head.reset();
    arena.reset();
    for (const auto& [name, value] : fields) head.add(arena, name, value, false, HeadLimits{});
    request = {};
    EXPECT_FALSE(head.is_malformed(false));
    return head.finish(arena, known, HeadLimits{}, request);
  }
  bool is_malformed(const Fields& fields, bool ended = true) {
    head.reset();
    arena.reset();
    for (const auto& [name, value] : fields) head.add(arena, name, value, false, HeadLimits{});
    return head.is_malformed(ended);
  }
  Refusal finish_path(const std::string& path, const std::string& method = "GET") {
    return finish({{":method", method}, {":scheme", "http"}, {":authority", "test"}, {":path", path}});
  }
  static Fields with(Fields more) {
    Fields fields{{":method", "GET"}, {":scheme", "https"}, {":authority", "test:8080"}, {":path", "/a?b"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return fields;
  }

  core::Arena arena;
  RequestHead head;
  KnownAuthority known;
  Request request;
};

TEST_F(HeadTest, BecomesARequest) {
  EXPECT_FALSE(finish(with({{"user-agent", "x"}, {"accept", ""}})));
  EXPECT_EQ(request.method, Method::get);
  EXPECT_EQ(request.version, Version::http2);
  EXPECT_EQ(request.method_text, "GET");
  EXPECT_EQ(request.target, "/a?b");
  EXPECT_EQ(request.path, "/a");
  EXPECT_EQ(request.query, "b");
  EXPECT_EQ(request.authority, "test:8080");
  ASSERT_EQ(request.fields.size(), 2u);
  EXPECT_EQ(request.field("User-Agent"), "x");
  EXPECT_TRUE(request.has_field("accept"));
}

TEST_F(HeadTest, PathsAreDecodedAsHttp1Does) {
  const std::pair<const char*, const char*> paths[] = {
      {"/", "/"},         {"/a/./b", "/a/b"}, {"/a/../b", "/b"},       {"//a//b", "/a/b"},
      {"/%61", "/a"},     {"/a%2Fb", "/a/b"}, {"/%2e%2e/..", nullptr}, {"/..", nullptr},
      {"/%00", nullptr},  {"/%", nullptr},    {"/%g0", nullptr},       {"/a#b", nullptr},
      {"/a\\b", nullptr}, {"/a?b\\c", "/a"},  {"/a b", nullptr},       {"/\xC3\xA9", nullptr},
      {"/a/.", "/a/"},    {"a", nullptr},     {"*", nullptr},          {"/|[^", "/|[^"},
      {"/a?%zz", "/a"},   {"/?a#", nullptr},  {"/?\x7F", nullptr},     {"/a%20b/../c?x=/../%", "/c"}};
  for (const auto& [path, decoded] : paths) {
    const Refusal refusal = finish_path(path);
    EXPECT_EQ(refusal.status, decoded == nullptr ? 400 : 0) << path;
    if (decoded != nullptr) {
      EXPECT_EQ(request.path, decoded) << path;
    }
  }
  EXPECT_TRUE(finish_path("/a%00").detail.contains("NUL"));
  EXPECT_FALSE(finish_path("/a//b"));
  EXPECT_TRUE(request.has_empty_segment);
  for (const char* path : {"/a/b", "/a/%62/", "/a/./b", "/a/?//"}) {
    EXPECT_FALSE(finish_path(path));
    EXPECT_FALSE(request.has_empty_segment) << path;
  }
  EXPECT_FALSE(finish_path("*", "OPTIONS"));
  EXPECT_EQ(request.path, "*");
  EXPECT_EQ(finish_path("/" + std::string(8191, 'a')).status, 0);
  EXPECT_EQ(finish_path("/" + std::string(8192, 'a')).status, 414);
}

TEST_F(HeadTest, AuthorityAndHostAgree) {
  EXPECT_FALSE(finish(with({{"host", "TEST:8080"}})));
  EXPECT_EQ(request.authority, "test:8080");
  EXPECT_EQ(finish(with({{"host", "other"}})).status, 400);
  EXPECT_EQ(finish(with({{"host", ""}})).status, 400);
  EXPECT_EQ(finish(with({{"host", "test:8080"}, {"host", "test:8080"}})).status, 400);
  EXPECT_FALSE(finish({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"host", "test"}}));
  EXPECT_EQ(request.authority, "test");
  for (const char* bad : {"a b", "user@test", "test:x", "test:65536", "[::1", "a/b"}) {
    EXPECT_EQ(finish({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", bad}}).status, 400)
        << bad;
  }
}

TEST_F(HeadTest, SchemesAndMethods) {
  EXPECT_EQ(finish({{":method", "GET"}, {":scheme", "ftp"}, {":authority", "t"}, {":path", "/"}}).status, 400);
  EXPECT_EQ(finish_path("/", std::string(64, 'M')).status, 0);
  EXPECT_EQ(finish_path("/", std::string(65, 'M')).status, 501);
  EXPECT_FALSE(finish({{":method", "CONNECT"}, {":authority", "test:80"}}));
  EXPECT_EQ(request.method, Method::connect);
  EXPECT_EQ(request.path, "");
  EXPECT_EQ(request.authority, "test:80");
  EXPECT_EQ(finish({{":method", "CONNECT"}, {":authority", "test"}}).status, 400);
  EXPECT_EQ(request.upgrade, "");
}

TEST_F(HeadTest, ExtendedConnectIsForAResource) {
  const Fields asked{{":method", "CONNECT"},
                     {":protocol", "websocket"},
                     {":scheme", "https"},
                     {":path", "/a/../chat?x=1"},
                     {":authority", "test:8080"}};
  EXPECT_FALSE(is_malformed(asked));
  EXPECT_FALSE(finish(asked));
  EXPECT_TRUE(head.is_extended_connect());
  EXPECT_EQ(request.method, Method::connect);
  EXPECT_EQ(request.upgrade, "websocket");
  EXPECT_EQ(request.target, "/a/../chat?x=1");
  EXPECT_EQ(request.path, "/chat");
  EXPECT_EQ(request.query, "x=1");
  EXPECT_EQ(request.authority, "test:8080");
  const auto with_field = [&](std::size_t index, const char* value) {
    Fields fields = asked;
    fields[index].second = value;
    return finish(fields).status;
  };
  EXPECT_EQ(with_field(4, "test"), 0) << "a port is not asked for, as it is of CONNECT to an authority";
  EXPECT_EQ(with_field(4, "a b"), 400);
  EXPECT_EQ(with_field(2, "wss"), 400);
  EXPECT_EQ(with_field(3, "*"), 400);
  EXPECT_EQ(with_field(3, "chat"), 400);
  Fields fields = asked;
  fields.emplace_back("content-length", "0");
  EXPECT_EQ(finish(fields).status, 400);
  // The next request must not inherit anything.
  EXPECT_FALSE(finish(with({})));
  EXPECT_FALSE(head.is_extended_connect());
  EXPECT_EQ(request.upgrade, "");
}

TEST_F(HeadTest, MalformedRequests) {
  EXPECT_FALSE(is_malformed(with({{"te", "trailers"}, {"x-y_z!", "a\tb"}, {"content-length", "0"}, {"e", ""}})));
  const Fields wrong[] = {
      {},
      {{":method", "GET"}, {":scheme", "http"}, {":authority", "t"}},
      {{":method", "GET"}, {":authority", "t"}, {":path", "/"}},
      {{":scheme", "http"}, {":authority", "t"}, {":path", "/"}},
      {{":method", ""}, {":scheme", "http"}, {":path", "/"}},
      {{":method", "G T"}, {":scheme", "http"}, {":path", "/"}},
      {{":method", "GET"}, {":scheme", "http"}, {":path", ""}},
      {{":method", "GET"}, {":method", "GET"}, {":scheme", "http"}, {":path", "/"}},
      {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":status", "200"}},
      {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":", "x"}},
      {{":method", "GET"}, {":scheme", "http"}, {"x", "y"}, {":path", "/"}},
      {{":method", "CONNECT"}, {":authority", "t:1"}, {":path", "/"}},
      {{":method", "CONNECT"}, {":scheme", "http"}, {":authority", "t:1"}},
      {{":method", "CONNECT"}},
      {{":method", "GET"}, {":protocol", "websocket"}, {":scheme", "http"}, {":path", "/"}, {":authority", "t"}},
      {{":method", "CONNECT"}, {":protocol", ""}, {":scheme", "http"}, {":path", "/"}, {":authority", "t"}},
      {{":method", "CONNECT"}, {":protocol", "a, b"}, {":scheme", "http"}, {":path", "/"}, {":authority", "t"}},
      {{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":path", ""}, {":authority", "t"}},
      {{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":authority", "t"}},
      {{":method", "CONNECT"}, {":protocol", "websocket"}, {":path", "/"}, {":authority", "t"}},
      {{":method", "CONNECT"}, {":protocol", "a"}, {":protocol", "a"}, {":scheme", "http"}, {":path", "/"}},
      with({{"", "x"}}),
      with({{"X", "y"}}),
      with({{"a b", "y"}}),
      with({{"a:b", "y"}}),
      with({{"x\xC3\xA9", "y"}}),
      with({{"x", " y"}}),
      with({{"x", "y\t"}}),
      with({{"x", "a\rb"}}),
      with({{"x", "a\nb"}}),
      with({{"x", std::string("a\0b", 3)}}),
      with({{"x",
             "a\x7F"
             "b"}}),
      with({{"connection", "close"}}),
      with({{"keep-alive", "1"}}),
      with({{"proxy-connection", "x"}}),
      with({{"transfer-encoding", "chunked"}}),
      with({{"upgrade", "h2c"}}),
      with({{"te", "gzip"}}),
      with({{"content-length", "1"}}),  // without any content
      with({{"content-length", ""}}),
      with({{"content-length", "x"}}),
      with({{"content-length", "-1"}}),
      with({{"content-length", "1, 1"}}),
      with({{"content-length", "0"}, {"content-length", "0"}}),
  };
  for (const Fields& fields : wrong) {
    EXPECT_TRUE(is_malformed(fields)) << (fields.empty() ? "" : fields.back().first + ": " + fields.back().second);
  }
  EXPECT_FALSE(is_malformed(with({{"content-length", "1"}}), false));
}

TEST_F(HeadTest, PrioritiesAreRead) {
  EXPECT_EQ(parse_priority(""), (Priority{3, false}));
  EXPECT_EQ(parse_priority("u=0"), (Priority{0, false}));
  EXPECT_EQ(parse_priority("u=7, i"), (Priority{7, true}));
  EXPECT_EQ(parse_priority("i=?1 ,u=1"), (Priority{1, true}));
  EXPECT_EQ(parse_priority("i,i=?0"), (Priority{3, false}));
  for (const char* strange : {"u=8", "u", "u=-1", "u=10", ",,,", "i=1", "x;y=\",\"", "u=1u=2"}) {
    EXPECT_EQ(parse_priority(strange), (Priority{3, false})) << strange;
  }
  (void)finish(with({{"priority", "u=2"}}));
  EXPECT_EQ(head.priority(), (Priority{2, false}));
}

TEST_F(HeadTest, AnAuthorityIsRememberedOnlyIfItIsValid) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(known.is_valid("test"));
    EXPECT_FALSE(known.is_valid("te t"));
    EXPECT_FALSE(known.is_valid(""));
    EXPECT_TRUE(known.is_valid(std::string(100, 'a')));
  }
}

TEST_F(HeadTest, CookiesAreJoinedInTheFirstOnesPlace) {
  EXPECT_FALSE(
      finish(with({{"a", "1"}, {"cookie", "x=1"}, {"b", "2"}, {"cookie", "y=2"}, {"cookie", ""}, {"c", "3"}})));
  ASSERT_EQ(request.fields.size(), 4u);
  EXPECT_EQ(request.fields[1].name, "cookie");
  EXPECT_EQ(request.fields[1].value, "x=1; y=2; ");
  EXPECT_EQ(request.fields[2].name, "b");
  EXPECT_EQ(request.fields[3].name, "c");
  EXPECT_FALSE(finish(with({{"cookie", "x=1"}})));
  EXPECT_EQ(request.field("cookie"), "x=1");
}

TEST_F(HeadTest, LimitsAreOnWhatIsDecoded) {
  Fields many(HeadLimits{}.fields, {"a", "b"});
  EXPECT_EQ(finish(with(many)).status, 0);
  many.push_back({"a", "b"});
  EXPECT_EQ(finish(with(many)).status, 431);
  // Cookies are counted individually, before they are joined.
  EXPECT_EQ(finish(with(Fields(HeadLimits{}.fields + 1, {"cookie", "a"}))).status, 431);
  EXPECT_EQ(finish(with({{"a", std::string(16'000, 'x')}})).status, 0);
  EXPECT_EQ(finish(with({{"a", std::string(16'384, 'x')}})).status, 431);
  EXPECT_EQ(finish(with(Fields(5, {"a", std::string(4'000, 'x')}))).status, 431);
  EXPECT_GT(head.bytes(), 20'000u);
}

TEST_F(HeadTest, KnowsTheLength) {
  (void)finish(with({{"content-length", "123"}}));
  EXPECT_EQ(head.content_length(), 123u);
  (void)finish(with({{"content-length", "99999999999999999999999"}}));
  EXPECT_EQ(head.content_length(), UINT64_MAX);
  (void)finish(with({}));
  EXPECT_FALSE(head.content_length());
}

}  // namespace
}  // namespace sluice::http::h2
