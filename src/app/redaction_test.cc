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

TEST(Redaction, OfWhoAsksInAddresses) {
  const std::vector<http::Field> fields = {{"Referer", "http://u:p@h/?password=a#access_token=b"},
                                           {"referer", "https://u:p%40q@w@h"},
                                           {"referer", "//t@h:80/a@b?x=c@d"},
                                           {"referer", "http://h/#id_token=e"},
                                           {"referer", "http://h/?x=1#jwt=f?key=g"},
                                           {"referer", "/a//b@c"},
                                           {"referer", "http://u:p@"},
                                           {"referer", "http:"}};
  std::string out;
  Redaction().append_fields(out, fields);
  EXPECT_EQ(out, R"({"referer":["http://***@h/?password=***#access_token=***","https://***@h","//***@h:80/a@b?x=c@d",)"
                 R"("http://h/#id_token=***","http://h/?x=1#jwt=***?key=***","/a//b@c","http://***@","http:"]})");
}

TEST(Redaction, ByWordsOfNames) {
  const Redaction redaction;
  for (const char* name : {"X-Auth", "X-Auth-Key", "X-Access-Key", "X-Jwt", "Private-Key", "X-Passphrase", "x_pass",
                           "Ocp-Apim-Subscription-Key", "X-Jwt-Assertion", "X-Auth-Token", "X-Session-Id", "key",
                           "private_key", "X-Client-Secret", "PWD", "sig", "code"}) {
    EXPECT_TRUE(redaction.hides(name)) << name;
  }
  for (const char* name : {"Author", "X-Authenticated-User", "Keep-Alive", "X-Monkey", "X-Keys", "X-Passenger", "-", "",
                           "Host", "X-Code", "Accept", "By-pass-through-", "X-Bypass"}) {
    EXPECT_EQ(redaction.hides(name), std::string_view(name).contains("-pass-")) << name;
  }
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
