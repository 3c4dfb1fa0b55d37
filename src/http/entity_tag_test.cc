#include "http/entity_tag.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

std::vector<std::string> tags_of(std::string_view list) {
  std::vector<std::string> tags;
  for (auto tag = next_entity_tag(list); !tag.empty(); tag = next_entity_tag(list)) tags.emplace_back(tag);
  return tags;
}

TEST(EntityTag, OneAfterTheOther) {
  using Tags = std::vector<std::string>;
  EXPECT_EQ(tags_of(""), Tags{});
  EXPECT_EQ(tags_of("\"7\""), Tags{"\"7\""});
  EXPECT_EQ(tags_of("\"a\",W/\"b,c\" ,\t\"\""), (Tags{"\"a\"", "W/\"b,c\"", "\"\""}));
}

TEST(EntityTag, WhatIsNoneIsPassedOver) {
  using Tags = std::vector<std::string>;
  EXPECT_EQ(tags_of("7, w/\"a\", \"b\" c, \"d\""), Tags{"\"d\""});
  EXPECT_EQ(tags_of("\"never closed"), Tags{});
  EXPECT_EQ(tags_of("*"), Tags{});
  EXPECT_EQ(tags_of("W/"), Tags{});
}

TEST(EntityTag, AnyStandsAlone) {
  const auto mixes = [](std::vector<Field> fields) { return mixes_any(fields, "if-match"); };
  for (const char* list :
       {"", "*", " *\t", "*,", "\"a\"", "\"a\", \"b\"", "\"*\"", "\"a, *\"", "W/\"*, a\" , \"b\"", "a, b"}) {
    EXPECT_FALSE(mixes({{"If-Match", list}})) << list;
  }
  for (const char* list :
       {"\"a\", *", "*, \"a\"", "\"a\",*", "*,*", "W/\"a\", *", "a, *", "\"a\" *, *", "\"never closed, *"}) {
    EXPECT_TRUE(mixes({{"If-Match", list}})) << list;
  }
  EXPECT_TRUE(mixes({{"If-Match", "\"a\""}, {"If-None-Match", "\"b\""}, {"IF-MATCH", "*"}}));
  EXPECT_FALSE(mixes({{"If-Match", "*"}, {"If-None-Match", "\"b\""}}));
}

}  // namespace
}  // namespace sluice::http
