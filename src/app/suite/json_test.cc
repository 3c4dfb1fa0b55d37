#include "app/suite/json.h"

#include <gtest/gtest.h>

namespace sluice::app::suite {
namespace {

std::string print(std::string_view text) {
  const auto parsed = parse_json(text);
  return parsed ? print_json(*parsed)
                : "error at " + std::to_string(parsed.error().offset.value_or(0)) + ": " + parsed.error().message;
}

TEST(SuiteJson, ReadsAndPrints) {
  EXPECT_EQ(print(R"( {"a":1,"b":[true,false,null,"x"],"c":{}} )"),
            R"({"a": 1, "b": [true, false, null, "x"], "c": {}})");
  EXPECT_EQ(print("[]"), "[]");
  EXPECT_EQ(print("12345678901234567890123"), "12345678901234567890123");
  EXPECT_EQ(print("-0.50e+7"), "-0.50e+7");
  EXPECT_EQ(print(R"("\u00e9\ud83c\udfac\n\/")"), "\"é🎬\\n/\"");
  EXPECT_EQ(print("\"ß🎬\""), "\"ß🎬\"");
}

TEST(SuiteJson, Refuses) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1",
                           "[1,]",
                           "[1 2]",
                           "{\"a\" 1}",
                           "{\"a\":}",
                           "{a:1}",
                           "{\"a\":1,}",
                           "tru",
                           "nul",
                           "01",
                           "1.",
                           ".5",
                           "-",
                           "+1",
                           "1e",
                           "1e+",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"\t\"",
                           "\"\xff\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf4\x90\x80\x80\"",
                           "\"\xe2\x82\"",
                           "1 2",
                           "NaN",
                           "[1]]"}) {
    EXPECT_FALSE(parse_json(text)) << text;
  }
  EXPECT_EQ(print("[1, 2"), "error at 5: it ends too early");
  EXPECT_EQ(print("{\"a\": x}"), "error at 6: a value is expected");
  EXPECT_EQ(print("[1, 02]"), "error at 4: this is not a number");
  EXPECT_EQ(parse_json("[1]] 2").error().text(), "a ] closes nothing");
  EXPECT_EQ(print("1, 2"), "error at 3: there is something behind the value");
  EXPECT_EQ(parse_json("[1, 2").error().text(), "it ends too early (byte 5)");
}

TEST(SuiteJson, ReadsAListWithoutBrackets) {
  const auto values = parse_json_values("1, [2], \"x\"");
  ASSERT_TRUE(values);
  ASSERT_EQ(values->size(), 3U);
  EXPECT_EQ(print_json(values->at(1)), "[2]");
  EXPECT_EQ(parse_json_values(" ")->size(), 0U);
  for (const char* text : {"1,", ",1", "1 2", "1], [2", "[1", "]["}) EXPECT_FALSE(parse_json_values(text)) << text;
}

TEST(SuiteJson, IsBoundedInDepth) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(deepest_json)));
  EXPECT_FALSE(parse_json(nested(deepest_json + 1)));
}

TEST(SuiteJson, TheLastMemberOfANameCounts) {
  const auto value = parse_json(R"({"a":1,"a":2})");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->find("a")->text, "2");
  EXPECT_EQ(value->find("b"), nullptr);
}

TEST(SuiteJson, NumbersAreComparedByValueAndExactly) {
  for (const auto& [one, other] : {std::pair{"1", "1.0"},
                                   {"1", "10e-1"},
                                   {"100", "1e2"},
                                   {"0", "-0.000"},
                                   {"0e5", "0"},
                                   {"12345678901234567890", "1234567890123456789e1"},
                                   {"-2.50", "-25e-1"},
                                   {"1E+2", "100"}}) {
    EXPECT_TRUE(same_number(one, other)) << one << " " << other;
  }
  for (const auto& [one, other] : {std::pair{"1", "2"},
                                   {"1", "-1"},
                                   {"9007199254740993", "9007199254740992"},
                                   {"0.1", "0.10000000000000001"},
                                   {"1e999999999999999999999", "1e999999999999999999998"},
                                   {"12345678901234567890", "12345678901234567891"}}) {
    EXPECT_FALSE(same_number(one, other)) << one << " " << other;
  }
}

TEST(SuiteJson, PrintsLines) {
  EXPECT_EQ(print_json_lines(*parse_json(R"([{"a":1},{"a":2}])")), "[\n  {\"a\": 1},\n  {\"a\": 2}\n]");
  EXPECT_EQ(print_json_lines(*parse_json("[]")), "[]");
  EXPECT_EQ(print_json_lines(*parse_json("1")), "1");
}

}  // namespace
}  // namespace sluice::app::suite
