#include "gateway/origins.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

TEST(CheckOrigin, TakesWhatBrowsersWrite) {
  for (const char* good : {"*", "https://app.example", "http://localhost:5173", "https://*.app.example",
                           "http://[::1]:8080", "http://127.0.0.1", "chrome-extension://abcdef"}) {
    EXPECT_EQ(check_origin(good), "") << good;
  }
  for (const char* bad : {"",
                          "app.example",
                          "https://",
                          "https://app.example/",
                          "https://app.example/path",
                          "null",
                          "https://App.example",
                          "https://app.example:",
                          "https://app.example:x",
                          "https://a*.example",
                          "https://*",
                          "https://*.",
                          "https://a.*.example",
                          "https://user@app.example",
                          "://a",
                          "*.example",
                          "https://app.example:123456",
                          "https://app.example:443",
                          "http://app.example:80",
                          "https://*.[::1]"}) {
    EXPECT_NE(check_origin(bad), "") << bad;
  }
}

TEST(AllowsOrigin, ComparesWholeOrigins) {
  const std::vector<Located<std::string>> origins = {{"https://app.example"}, {"https://*.sub.example:8443"}};
  for (const char* good : {"https://app.example", "https://a.sub.example:8443", "https://a.b.sub.example:8443"}) {
    EXPECT_TRUE(allows_origin(origins, good)) << good;
  }
  for (const char* bad : {"", "null", "*", "http://app.example", "https://app.example:8443", "https://app.example.evil",
                          "https://sub.example:8443", "https://.sub.example:8443", "https://evil/.sub.example:8443",
                          "https://evil:1@a.sub.example:8443", "https://asub.example:8443", "https://a.sub.example"}) {
    EXPECT_FALSE(allows_origin(origins, bad)) << bad;
  }
  EXPECT_TRUE(allows_origin({{"*"}}, "null"));
  EXPECT_FALSE(allows_origin({{"*"}}, ""));
  EXPECT_FALSE(allows_origin({}, "https://app.example"));
}

TEST(OriginOf, ExactlyOneField) {
  http::Request request;
  std::vector<http::Field> fields = {{"A", "b"}, {"ORIGIN", "https://a"}};
  request.fields = fields;
  EXPECT_EQ(origin_of(request), "https://a");
  fields.push_back({"origin", "https://a"});
  request.fields = fields;
  EXPECT_EQ(origin_of(request), "");
}

TEST(IsOwnOrigin, ComparesSchemeHostAndPort) {
  http::Request request;
  request.authority = "app.example";
  EXPECT_TRUE(is_own_origin(request, "http://app.example"));
  for (const char* bad : {"", "null", "https://app.example", "http://app.example:8080", "http://other.example",
                          "http://sub.app.example", "http://"}) {
    EXPECT_FALSE(is_own_origin(request, bad)) << bad;
  }
  request.secure = true;
  EXPECT_TRUE(is_own_origin(request, "https://app.example"));
  EXPECT_FALSE(is_own_origin(request, "http://app.example"));
  request.authority = "app.example:8443";
  EXPECT_TRUE(is_own_origin(request, "https://app.example:8443"));
  EXPECT_FALSE(is_own_origin(request, "https://app.example"));
  request.authority = "";
  EXPECT_FALSE(is_own_origin(request, "https://"));
}

}  // namespace
}  // namespace sluice::gateway
