#include "login/fields.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::login {
namespace {

TEST(Fields, OfJson) {
  const auto fields = parse_fields("application/json; charset=utf-8", R"({"a":"x \u00e4","n":1.5,"t":true,"z":null})");
  ASSERT_TRUE(fields);
  EXPECT_EQ(*fields, (Fields{{"a", "x \u00e4"}, {"n", "1.5"}, {"t", "true"}}));
  EXPECT_EQ(fields_of(json_of(*fields)), *fields);
}

TEST(Fields, OfAForm) {
  const auto fields = parse_fields("Application/X-WWW-Form-Urlencoded", "a=x+%C3%A4&b=&c%3D=1%26");
  ASSERT_TRUE(fields);
  EXPECT_EQ(*fields, (Fields{{"a", "x \u00e4"}, {"b", ""}, {"c=", "1&"}}));
  EXPECT_EQ(fields_of(json_of(*fields)), *fields);
}

TEST(Fields, WrongBodies) {
  for (const std::string body : {"", "[]", "{", R"({"a":1,"a":2})", R"({"a":[1]})", R"({"a":{}})"}) {
    const auto fields = parse_fields("application/json", body);
    ASSERT_FALSE(fields) << body;
    EXPECT_EQ(fields.error().status, 400);
  }
  for (const std::string body : {"a=1&a=2", "a=%", "a=%ff"}) {
    const auto fields = parse_fields("application/x-www-form-urlencoded", body);
    ASSERT_FALSE(fields) << body;
    EXPECT_EQ(fields.error().status, 400);
  }
  EXPECT_EQ(parse_fields("text/plain", "{}").error().status, 415);
  EXPECT_EQ(parse_fields("", "{}").error().status, 415);
}

}  // namespace
}  // namespace sluice::login
