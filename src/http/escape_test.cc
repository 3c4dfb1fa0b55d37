#include "http/escape.h"

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

std::string url(std::string_view text) {
  std::string out;
  append_url_path(out, text);
  return out;
}
std::string html(std::string_view text) {
  std::string out;
  append_html(out, text);
  return out;
}
std::string json(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

TEST(Escape, Urls) {
  EXPECT_EQ(url("/a/b-c_d~e.f"), "/a/b-c_d~e.f");
  EXPECT_EQ(url("a b?c#d%e\\f"), "a%20b%3Fc%23d%25e%5Cf");
  EXPECT_EQ(url("javascript:alert(1)"), "javascript%3Aalert%281%29");
  EXPECT_EQ(url("\xc3\xbc\n\x7f\xff"), "%C3%BC%0A%7F%FF");
}

TEST(Escape, Html) {
  EXPECT_EQ(html("<script>\"'&"), "&lt;script&gt;&quot;&#39;&amp;");
  EXPECT_EQ(html("\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80"), "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(html("a\nb\x1b"),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
}

TEST(Escape, Json) {
  EXPECT_EQ(json("a\"b\\c\n\x1f/"), R"("a\"b\\c\u000A\u001F/")");
  EXPECT_EQ(json("\xc3\xbc"), "\"\xc3\xbc\"");
}

TEST(Escape, WhatIsNoUtf8IsReplaced) {
  const std::string one = "\xef\xbf\xbd";
  for (const char* text : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xc1\x81", "\xe2\x82", "\xe0\x80\xaf", "\xed\xa0\x80",
                           "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3("}) {
    const std::string whole(text);
    EXPECT_TRUE(html(whole).starts_with(one)) << whole.size();
    EXPECT_TRUE(json("a" + whole).starts_with("\"a" + one));
  }
  EXPECT_EQ(html("\xc3("), one + "(") << "only the bytes that are wrong";
  EXPECT_EQ(html("\xff\xfe"), one + one);
}

}  // namespace
}  // namespace sluice::http
