#include "sql/sqlite/json_text.h"

#include <random>
#include <string>

#include <gtest/gtest.h>
#include <simdjson.h>

namespace sluice::sql::sqlite {
namespace {

TEST(JsonText, Takes) {
  for (const char* text : {"null",
                           "true",
                           "false",
                           "0",
                           "-0",
                           "12",
                           "-1.5",
                           "1e5",
                           "1.25E-7",
                           "1e+2",
                           "\"\"",
                           "\"a\"",
                           "[]",
                           "{}",
                           " [ ] ",
                           "[1]",
                           "[1,2]",
                           "[[],[{}]]",
                           "{\"a\":1}",
                           "{\"a\":{\"b\":[1,{\"c\":null}]},\"d\":2}",
                           "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
                           "\"1234567\\n12345678\"",
                           "\t\n\r 1 \n",
                           "\"\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\"",
                           "{\"\":\"\"}",
                           "\"\x7F\""}) {
    EXPECT_TRUE(is_json(text)) << text;
  }
}

TEST(JsonText, Refuses) {
  for (const char* text : {"",
                           " ",
                           "nul",
                           "nulll",
                           "tru",
                           "True",
                           "01",
                           "-",
                           "+1",
                           "1.",
                           ".5",
                           "1e",
                           "1e+",
                           "0x1",
                           "NaN",
                           "Infinity",
                           "\"",
                           "\"a",
                           "\"\\\"",
                           "\"\\x\"",
                           "\"\\u12g4\"",
                           "\"\\u12\"",
                           "\"\\",
                           "\"\n\"",
                           "\"12345678\t\"",
                           "'a'",
                           "[",
                           "]",
                           "[1",
                           "[1,",
                           "[1,]",
                           "[,1]",
                           "[1 2]",
                           "{",
                           "}",
                           "{a:1}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{\"a\":1 \"b\":2}",
                           "{1:2}",
                           "[1}",
                           "{\"a\":1]",
                           "1 2",
                           "[] []",
                           "{} x",
                           "[1]]",
                           "/**/1",
                           "\xEF\xBB\xBF"
                           "1"}) {
    EXPECT_FALSE(is_json(text)) << text;
  }
  EXPECT_FALSE(is_json(std::string_view("\"a\0b\"", 5)));
  EXPECT_FALSE(is_json(std::string_view("\"\\\0\"", 4)));
}

TEST(JsonText, BoundsItsDepth) {
  const auto nested = [](unsigned depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(is_json(nested(json_max_depth)));
  EXPECT_FALSE(is_json(nested(json_max_depth + 1)));
  EXPECT_FALSE(is_json(std::string(10'000'000, '[')));
}

TEST(JsonText, EveryPrefixOfAnObjectIsRefused) {
  const std::string text = R"({"name":"a \"b\" \u00e9 and a long enough text","list":[1,-2.5e3,true,null,{"x":[]}]})";
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(is_json(text.substr(0, size))) << size;
  EXPECT_TRUE(is_json(text));
}

// Documents with a few changed bytes; simdjson decides what is expected.
TEST(JsonText, AgreesWithSimdjson) {
  const std::string seeds[] = {
      R"({"name":"a \"b\" and more text \n here","list":[1,-2.5e3,true,null,{"x":[]}],"z":{"y":"w"}})",
      R"([0.5,1e10,"abcdefghijklmnop","",[[[]]],{"a":{"b":{}}},false])"};
  constexpr std::string_view alphabet = "{}[]\",:0123456789.eE+-\\tfnulrsa \n\t/";
  std::mt19937 random(20261121);
  simdjson::dom::parser parser;
  int taken = 0;
  for (int i = 0; i < 60'000; ++i) {
    std::string text = seeds[random() % 2];
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1);
          break;
        default:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
      }
    }
    simdjson::dom::element element;
    const auto error = parser.parse(text).get(element);
    // simdjson also converts numbers. A number that fits neither a double nor an integer is still JSON.
    if (error == simdjson::NUMBER_ERROR) continue;
    const bool expected = error == simdjson::SUCCESS;
    taken += expected ? 1 : 0;
    ASSERT_EQ(is_json(text), expected) << text << "\n" << simdjson::error_message(error);
  }
  EXPECT_GT(taken, 5'000);
}

}  // namespace
}  // namespace sluice::sql::sqlite
