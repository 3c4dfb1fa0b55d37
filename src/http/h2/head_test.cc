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
    for (const auto& [name, value] : fields) head.add(arena, name, value, 16 * 1024);
    request = {};
    return head.finish(arena, request);
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
      {"/", "/"},           {"/a/./b", "/a/b"},     {"/a/../b", "/b"}, {"//a//b", "/a/b"},   {"/%61", "/a"},
      {"/a%2Fb", "/a%2Fb"}, {"/%2e%2e/..", nullptr}, {"/..", nullptr},  {"/%00", nullptr},    {"/%", nullptr},
      {"/%g0", nullptr},    {"/a#b", nullptr},      {"/a b", nullptr}, {"/\xC3\xA9", nullptr}, {"/a/.", "/a/"},
      {"a", nullptr},       {"*", nullptr},         {"/|[^", "/|[^"},  {"/a?%zz", "/a"},     {"/?a#", nullptr},
      {"/?\x7F", nullptr},  {"/a%20b/../c?x=/../%", "/c"}};
  for (const auto& [path, decoded] : paths) {
    const Refusal refusal = finish_path(path);
    EXPECT_EQ(refusal.status, decoded == nullptr ? 400 : 0) << path;
    if (decoded != nullptr) {
      EXPECT_EQ(request.path, decoded) << path;
    }
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
    EXPECT_EQ(finish({{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", bad}}).status, 400) << bad;
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
  EXPECT_EQ(finish({{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":path", "/"},
                    {":authority", "test"}}).status, 501);
}

TEST_F(HeadTest, CookiesAreJoinedInTheFirstOnesPlace) {
  EXPECT_FALSE(finish(with({{"a", "1"}, {"cookie", "x=1"}, {"b", "2"}, {"cookie", "y=2"}, {"cookie", ""}, {"c", "3"}})));
  ASSERT_EQ(request.fields.size(), 4u);
  EXPECT_EQ(request.fields[1].name, "cookie");
  EXPECT_EQ(request.fields[1].value, "x=1; y=2; ");
  EXPECT_EQ(request.fields[2].name, "b");
  EXPECT_EQ(request.fields[3].name, "c");
  EXPECT_FALSE(finish(with({{"cookie", "x=1"}})));
  EXPECT_EQ(request.field("cookie"), "x=1");
}

TEST_F(HeadTest, LimitsAreOnWhatIsDecoded) {
  Fields many(RequestHead::max_fields, {"a", "b"});
  EXPECT_EQ(finish(with(many)).status, 0);
  many.push_back({"a", "b"});
  EXPECT_EQ(finish(with(many)).status, 431);
  // Cookies count one by one, before they are joined.
  EXPECT_EQ(finish(with(Fields(RequestHead::max_fields + 1, {"cookie", "a"}))).status, 431);
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
