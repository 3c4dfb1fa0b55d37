#include "api/openapi/json.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace sluice::api::openapi {
namespace {

TEST(JsonValue, Scalars) {
  EXPECT_EQ(Json(nullptr).text(), "null");
  EXPECT_EQ(Json(true).text(), "true");
  EXPECT_EQ(Json(false).text(), "false");
  EXPECT_EQ(Json(0).text(), "0");
  EXPECT_EQ(Json(std::size_t{7}).text(), "7");
  EXPECT_EQ(Json(std::numeric_limits<std::int64_t>::min()).text(), "-9223372036854775808");
  EXPECT_EQ(Json(std::numeric_limits<std::int64_t>::max()).text(), "9223372036854775807");
}

TEST(JsonValue, StringsAreEscaped) {
  EXPECT_EQ(Json("").text(), R"("")");
  EXPECT_EQ(Json(std::string("a\"b\\c\n\t\x01")).text(), R"("a\"b\\c\n\t\u0001")");
  EXPECT_EQ(Json(std::string_view("ä/é")).text(), "\"ä/é\"");
  EXPECT_EQ((Json{{"a\"\n", "b\""}}).text(), R"({"a\"\n":"b\""})") << "names, too";
}

TEST(JsonValue, RawTextIsWrittenAsItIs) {
  EXPECT_EQ(Json(Json::Raw{"1.50e+3"}).text(), "1.50e+3");
  EXPECT_EQ((Json{{"a", Json::Raw{R"({ "b" : "\u0041" })"}}}).text(), R"({"a":{ "b" : "\u0041" }})");
}

TEST(JsonValue, NothingIsInIt) {
  EXPECT_EQ(Json(Json::Object()).text(), "{}");
  EXPECT_EQ(Json(Json::Array()).text(), "[]");
  EXPECT_EQ((Json{{"", Json::Object()}, {"a", Json::Array{Json::Array(), ""}}}).text(), R"({"":{},"a":[[],""]})");
}

TEST(JsonValue, MembersKeepTheirOrder) {
  Json::Object object = {{"z", 1}, {"a", 2}};
  object.emplace_back("m", 3);
  EXPECT_EQ(Json(object).text(), R"({"z":1,"a":2,"m":3})");
  EXPECT_EQ(Json(Json::Array{3, 1, 2}).text(), "[3,1,2]");
}

TEST(JsonValue, ValuesAreNested) {
  const Json one = {{"a", {{"b", Json::Array{{{"c", nullptr}}, {{"d", {{"e", true}}}}, Json::Array{"x"}}}}}};
  EXPECT_EQ(one.text(), R"({"a":{"b":[{"c":null},{"d":{"e":true}},["x"]]}})");
  const Json copy = one;
  EXPECT_EQ((Json{{"of", copy}, {"again", one}}).text(), "{\"of\":" + one.text() + ",\"again\":" + one.text() + "}");
}

}  // namespace
}  // namespace sluice::api::openapi
