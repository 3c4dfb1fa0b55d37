#include "api/query_names.h"

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

// The status and body of the refusal, or "".
std::string refusal(const QueryNames& names, std::string_view query) {
  http::Request request;
  request.query = query;
  const auto refused = names.refuse(request);
  if (!refused) return "";
  EXPECT_EQ(refused->status, 400);
  const std::string body(std::get<Buffer>(refused->body).view());
  const auto detail = body.find(R"("detail":)");
  EXPECT_NE(detail, body.npos) << body;
  return body.substr(detail);
}

std::string said(std::string_view name, std::string_view why) {
  return R"("detail":")" + std::string(name.empty() ? "a parameter without a name" : name) + ": " + std::string(why) +
         R"(","parameter":")" + std::string(name) + R"("})";
}

TEST(QueryNames, OnlyWhatIsKnownMayCome) {
  QueryNames names;
  EXPECT_EQ(refusal(names, ""), "");
  EXPECT_EQ(refusal(names, "&&"), "");
  EXPECT_EQ(refusal(names, "a"), said("a", "unknown parameter; possible are: none"));
  names.add("a b");
  names.add("id", true);
  names.add("a b");
  const std::string possible = "unknown parameter; possible are: a b, id";
  EXPECT_EQ(refusal(names, "a+b=1&id=1&%69d=2&id"), "");
  EXPECT_EQ(refusal(names, "a+b=1&c=2"), said("c", possible));
  EXPECT_EQ(refusal(names, "A+b=1"), said("A b", possible));
  EXPECT_EQ(refusal(names, "=1"), said("", possible));
  EXPECT_EQ(refusal(names, "i%zz=1"), said("i%zz", "its name has a broken escape"));
  EXPECT_EQ(refusal(names, "a+b=1&id=1&a%20b=1"), said("a b", "it comes more than once"));
}

TEST(QueryNames, OthersMayBePassedOver) {
  QueryNames names(QueryParameters::any);
  names.add("a");
  EXPECT_EQ(refusal(names, "a=1&b=1&b=2&%zz"), "");
  EXPECT_EQ(refusal(names, "a=1&b=1&a=2"), said("a", "it comes more than once"));
}

TEST(QueryNames, NamesAreEchoedInPartAndAsUtf8) {
  const QueryNames names;
  EXPECT_TRUE(refusal(names, std::string(100, 'x')).ends_with("\"" + std::string(64, 'x') + "\"}"));
  EXPECT_TRUE(refusal(names, "a%ff").ends_with("\"a\"}"));
  std::string long_name = "x";
  for (int i = 0; i < 40; ++i) long_name += "%C3%BC";
  std::string echoed = "x";
  for (int i = 0; i < 31; ++i) echoed += "\u00fc";
  EXPECT_TRUE(refusal(names, long_name).ends_with("\"" + echoed + "\"}"));
}

TEST(QueryNames, SourcesSayWhichComeFromTheQuery) {
  std::vector<Source> sources(3);
  sources[0].key = "q";
  sources[1].key = "path";
  sources[1].from = From::path;
  sources[2].key = "ids";
  sources[2].type = sql::ParameterType::integers;
  QueryNames names;
  names.add(sources);
  EXPECT_EQ(names.all(), (std::vector<std::string_view>{"q", "ids"}));
  EXPECT_EQ(refusal(names, "ids=1&ids=2&q=1"), "");
}

}  // namespace
}  // namespace sluice::api
