#include "api/query_string.h"

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

TEST(QueryString, FindsAndDecodes) {
  std::string scratch;
  const QueryString query("a=1&two+words=x%20y+z&%62=%e2%82%ac&flag&empty=&a=2&bad=%zz%4", scratch);
  EXPECT_EQ(query.find("a"), "1");
  EXPECT_EQ(query.find("two words"), "x y z");
  EXPECT_EQ(query.find("b"), "\u20ac");
  EXPECT_EQ(query.find("flag"), "");
  EXPECT_EQ(query.find("empty"), "");
  EXPECT_EQ(query.find("bad"), "%zz%4");
  EXPECT_EQ(query.find("c"), std::nullopt);
  EXPECT_EQ(query.find(""), std::nullopt);
}

TEST(QueryString, EarlierViewsStay) {
  std::string scratch;
  const std::string text = "a=" + std::string(300, '+') + "&b=" + std::string(300, '+');
  const QueryString query(text, scratch);
  const auto a = query.find("a");
  const auto b = query.find("b");
  EXPECT_EQ(*a, std::string(300, ' '));
  EXPECT_EQ(*b, std::string(300, ' '));
}

TEST(QueryString, AnEmptyOneHasNothing) {
  std::string scratch;
  EXPECT_EQ(QueryString("", scratch).find("a"), std::nullopt);
  EXPECT_EQ(QueryString("&&&", scratch).find("a"), std::nullopt);
}

}  // namespace
}  // namespace sluice::api
