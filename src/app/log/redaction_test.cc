#include "app/log/redaction.h"

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
  // No part of a value is shown, whichever separators it contains.
  EXPECT_EQ(query("token=a?b;c&d=1"), "token=***&d=1");
  EXPECT_EQ(query("next=/a?token=b&c=1;token=d"), "next=/a?token=***&c=1;token=***");
  // Any separator between name and value is recognised, escaped or not.
  EXPECT_EQ(query("token%3Da&token%3aa&token:a%26b"), "token%3D***&token%3a***&token:***");
  EXPECT_EQ(query("a=%2Fb%3Ftoken%3dc%26d=e&f=1"), "a=%2Fb%3Ftoken%3d***&f=1");
  EXPECT_EQ(query("a=1;sid=b;c&d=%7B%22pin%22:1&api%20key=e"), "a=1;sid=***&d=%7B%22pin%22:***&api%20key=***");
  EXPECT_EQ(query("a=1&token;x=b&token%3Bx=c;d&tok;n=e"), "a=1&token;***&token%3B***&tok;n=e");
  EXPECT_EQ(query("token%3"), "token%3");
  // Names that are escaped more than once.
  EXPECT_EQ(query("%2574oken=a&pass%252577ord:b&%25%37%34oken=c&p%2%3569n=d&x=%2574"),
            "%2574oken=***&pass%252577ord:***&%25%37%34oken=***&p%2%3569n=***&x=%2574");
  EXPECT_EQ(query("a=1%253F%2574oken%253Db&100%25=c"), "a=1%253F%2574oken%253D***&100%25=c");
  const std::vector<std::string> more = {"PIN"};
  EXPECT_EQ(query("pin=1&spin=2", Redaction(more)), "pin=***&spin=2");
}

TEST(Redaction, OfTargets) {
  const auto target = [](std::string_view text) {
    std::string out;
    Redaction().append_address(out, text);
    return out;
  };
  EXPECT_EQ(target("/a/token=b"), "/a/token=b");
  EXPECT_EQ(target("/a?"), "/a?");
  EXPECT_EQ(target("/a?x=1&%74oken=b"), "/a?x=1&%74oken=***");
  EXPECT_EQ(target("http://h?token=b"), "http://h?token=***");
  EXPECT_EQ(target("http://u:p@h/?token=b"), "http://***@h/?token=***");
  EXPECT_EQ(target("/a;token=b?c=d"), "/a;token=***");
  EXPECT_EQ(target("*"), "*");
}

TEST(Redaction, OfUsersHoweverTheyAreEscaped) {
  const auto target = [](std::string_view text) {
    std::string out;
    Redaction().append_address(out, text);
    return out;
  };
  const std::pair<const char*, const char*> queries[] = {
      {"after=0&u=https://joe:pw@h/&x=1", "after=0&u=https://***@h/&x=1"},
      {"u=//joe:pw@h", "u=//***@h"},
      {"//joe:pw@h", "//***@h"},
      {"u=https%3A%2F%2Fu:pw%40h/", "u=https%3A%2F%2F***%40h/"},
      {"u=https%3a%2f%2fu%3apw%40h%2f&v=https://u:p%2Fw@h/", "u=https%3a%2f%2f***%40h%2f&v=https://***@h/"},
      {"u=https://u:p%3Fw%40h", "u=https://***%40h"},
      {"u=https%253A%252F%252Fu%253Apw%2540h%252Fb", "u=https%253A%252F%252F***%2540h%252Fb"},
      {"u=https%3A%2F%2Fu:p%252Fw%40h", "u=https%3A%2F%2F***%40h"},
      {"u=https%3A%2F%2Fh%2Fa%40b&at=c%2F%2Fd%40e", "u=https%3A%2F%2Fh%2Fa%40b&at=c%2F%2Fd%40e"},
      {"u=%2F%2", "u=%2F%2"},
      {"u=a%25b", "u=a%25b"},
  };
  for (const auto& [text, shown] : queries) {
    EXPECT_EQ(query(text), shown);
    EXPECT_EQ(target("/?u=" + std::string(text)), "/?u=" + std::string(shown));
  }
  EXPECT_EQ(target("bot (+https://u:pw@h/)"), "bot (+https://***@h/)");
  EXPECT_EQ(target("bot (+https://h; bot@h)"), "bot (+https://h; bot@h)");
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
                 R"("http://h/#id_token=***","http://h/?x=1#jwt=***","/a//b@c","http://***@","http:"]})");
}

TEST(Redaction, OfSeveralAddressesInAnyField) {
  const std::vector<http::Field> fields = {{"Link", "<http://u:p@h/?a>; rel=b, <//c>, <http://u:p@h2>"},
                                           {"Origin", "http://u:p@h"},
                                           {"Via", "1.1 http://u:p@h:1"},
                                           {"Accept", "text/html;q=0.9, */*"}};
  std::string out;
  Redaction().append_fields(out, fields);
  EXPECT_EQ(out, R"({"link":"<http://***@h/?a>; rel=b, <//c>, <http://***@h2>","origin":"http://***@h",)"
                 R"("via":"1.1 http://***@h:1","accept":"text/html;q=0.9, */*"})");
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
