#include "http/query_string.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

// Returns the value, or "broken" if it has an invalid escape.
std::optional<std::string> value_of(const QueryString& query, std::string_view name) {
  const auto value = query.find(name);
  if (!value) return std::nullopt;
  return value->broken ? "broken" : std::string(value->text);
}

TEST(QueryString, FindsAndDecodes) {
  std::string scratch;
  const QueryString query("a=1&two+words=x%20y+z&%62=%e2%82%ac&flag&empty=&a=2&percent=100%25", scratch);
  EXPECT_EQ(value_of(query, "a"), "1");
  EXPECT_EQ(value_of(query, "two words"), "x y z");
  EXPECT_EQ(value_of(query, "b"), "\u20ac");
  EXPECT_EQ(value_of(query, "flag"), "");
  EXPECT_EQ(value_of(query, "empty"), "");
  EXPECT_EQ(value_of(query, "percent"), "100%");
  EXPECT_EQ(value_of(query, "c"), std::nullopt);
  EXPECT_EQ(value_of(query, ""), std::nullopt);
}

TEST(QueryString, AnEscapeThatIsNoneBreaksItsValueAlone) {
  for (const char* bad : {"%", "%4", "%zz", "%4z", "%z4", "a%", "%41%", "%%41", "+%-1", "%4&1"}) {
    std::string scratch;
    const std::string text = std::string("x=%41&bad=") + bad + "&y=b+c";
    const QueryString query(text, scratch);
    EXPECT_EQ(value_of(query, "bad"), "broken") << bad;
    EXPECT_EQ(value_of(query, "x"), "A");
    EXPECT_EQ(value_of(query, "y"), "b c");
  }
  std::string scratch;
  const QueryString query("%zz=1&%=2&%7=3&x%zz=4&x=5", scratch);
  EXPECT_EQ(value_of(query, "x"), "5");
  EXPECT_EQ(value_of(query, "%zz"), std::nullopt);
  EXPECT_EQ(value_of(query, ""), std::nullopt);
}

TEST(QueryString, EarlierViewsStay) {
  std::string scratch;
  const std::string text = "a=" + std::string(300, '+') + "&b=" + std::string(300, '+');
  const QueryString query(text, scratch);
  const auto a = query.find("a");
  const auto b = query.find("b");
  EXPECT_EQ(a->text, std::string(300, ' '));
  EXPECT_EQ(b->text, std::string(300, ' '));
}

TEST(QueryString, GivesAllOfAName) {
  std::string scratch;
  const QueryString query("a=1&b&%61=two+words&&c=&a=%zz&aa=1", scratch);
  QueryPairs pairs = query.pairs();
  EXPECT_EQ(query.next("a", pairs)->text, "1");
  EXPECT_TRUE(pairs.has("a"));
  EXPECT_TRUE(pairs.has("b"));
  EXPECT_EQ(query.next("a", pairs)->text, "two words");
  EXPECT_FALSE(pairs.has("b"));
  EXPECT_TRUE(query.next("a", pairs)->broken);
  EXPECT_FALSE(pairs.has("a"));
  EXPECT_FALSE(query.next("a", pairs));
  EXPECT_TRUE(pairs.done());
}

TEST(QueryString, AnEmptyOneHasNothing) {
  std::string scratch;
  EXPECT_FALSE(QueryString("", scratch).find("a"));
  EXPECT_FALSE(QueryString("&&&", scratch).find("a"));
}

}  // namespace
}  // namespace sluice::http
