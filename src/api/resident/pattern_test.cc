#include "api/resident/pattern.h"

#include <gtest/gtest.h>

namespace sluice::api::resident {
namespace {

TEST(ResidentPattern, AsterisksStandForAnyCharacters) {
  const struct {
    const char* pattern;
    const char* text;
    bool matches;
  } cases[] = {
      {"a", "a", true},         {"a", "ab", false},       {"a", "", false},          {"", "", true},
      {"", "a", false},         {"*", "", true},          {"*", "any\n", true},      {"a*", "a", true},
      {"a*", "abc", true},      {"a*", "ba", false},      {"*a", "a", true},         {"*a", "ba", true},
      {"*a", "ab", false},      {"*b*", "abc", true},     {"*b*", "ac", false},      {"a*c", "ac", true},
      {"a*c", "abcbc", true},   {"a*a", "a", false},      {"ab*ba", "aba", false},   {"a*b*c", "a.b.c", true},
      {"a*b*c", "acb", false},  {"*ab*ab", "abab", true}, {"*ab*ab", "aab", false},  {"**", "a", true},
      {"a**b", "ab", true},     {"A*", "abc", false},     {"100%*", "100%ly", true}, {"a_c", "abc", false},
      {R"(\*)", "*", true},     {R"(\*)", "a", false},    {R"(a\**)", "a*b", true},  {R"(\\*)", R"(\a)", true},
      {R"(\a)", R"(\a)", true}, {R"(a\)", R"(a\)", true},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(Pattern(one.pattern).matches(one.text), one.matches) << one.pattern << " " << one.text;
  }
}

TEST(ResidentPattern, Beginning) {
  EXPECT_EQ(Pattern("har*").beginning(), "har");
  EXPECT_TRUE(Pattern("har*").is_beginning());
  EXPECT_EQ(Pattern(R"(a\*b*c)").beginning(), "a*b");
  EXPECT_FALSE(Pattern(R"(a\*b*c)").is_beginning());
  EXPECT_FALSE(Pattern("har").is_beginning());
  EXPECT_EQ(Pattern("*").beginning(), "");
}

}  // namespace
}  // namespace sluice::api::resident
