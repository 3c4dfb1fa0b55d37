#include "app/redaction.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::app {
namespace {

std::string query(std::string_view text, const Redaction& redaction = Redaction()) {
  std::string out;
  redaction.append_query(out, text);
  return out;
}

TEST(Redaction, OfQueryStrings) {
  EXPECT_EQ(query(""), "");
  EXPECT_EQ(query("a=1&b"), "a=1&b");
  EXPECT_EQ(query("a=1&access_token=x.y.z&b=2"), "a=1&access_token=***&b=2");
  EXPECT_EQ(query("PassWord=x"), "PassWord=***");
  EXPECT_EQ(query("pass%77ord=x&x-api%2Dkey=1"), "pass%77ord=***&x-api%2Dkey=***");
  EXPECT_EQ(query("key=1&keys=2&monkey=3&token"), "key=***&keys=2&monkey=3&token");
  EXPECT_EQ(query("token=a=b&&token=&"), "token=***&&token=***&");
  EXPECT_EQ(query("%&%4=1&%zz=token"), "%&%4=1&%zz=token");
  const std::vector<std::string> more = {"PIN"};
  EXPECT_EQ(query("pin=1&spin=2", Redaction(more)), "pin=***&spin=2");
}

TEST(Redaction, OfAddressesInFields) {
  const std::vector<http::Field> fields = {{"Referer", "http://a/b?x=1&password=p&y#token=z"},
                                           {"X-Original-URL", "/a?token=t"},
                                           {"Origin", "http://a?"},
                                           {"referer", "http://a/"}};
  std::string out;
  Redaction().append_fields(out, fields);
  EXPECT_EQ(out, R"({"referer":["http://a/b?x=1&password=***&y#token=***","http://a/"],)"
                 R"("x-original-url":"/a?token=***","origin":"http://a?"})");
}

TEST(Redaction, OfFields) {
  const std::vector<http::Field> fields = {
      {"Host", "a"},     {"Authorization", "Bearer x"}, {"Cookie", "a=b"}, {"X-Forwarded", "1"},
      {"cookie", "c=d"}, {"x-forwarded", "\xff\""},     {"X-API-Key", "k"}};
  std::string out;
  Redaction().append_fields(out, fields);
  EXPECT_EQ(
      out,
      R"({"host":"a","authorization":"***","cookie":["***","***"],"x-forwarded":["1","\u00ff\""],"x-api-key":"***"})");
}

}  // namespace
}  // namespace sluice::app
