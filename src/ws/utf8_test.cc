#include "ws/utf8.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace sluice::ws {
namespace {

using namespace std::string_literals;

std::string encode(std::uint32_t code) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F))};
  if (code < 0x10000) return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)), byte(0x80 | (code >> 6 & 0x3F)),
          byte(0x80 | (code & 0x3F))};
}

bool valid_in_pieces(std::string_view text, std::size_t cut) {
  Utf8Validator validator;
  return validator.feed(text.substr(0, cut)) && validator.feed(text.substr(cut)) && validator.complete();
}

void expect_everywhere(const std::string& text, bool valid) {
  // Adds enough bytes before and after the text to exercise every code path.
  for (const std::size_t around : {0u, 1u, 3u, 7u, 60u, 130u}) {
    const std::string whole = std::string(around, 'a') + text + std::string(around, 'z');
    EXPECT_EQ(is_utf8(whole), valid) << testing::PrintToString(whole);
    for (std::size_t cut = around; cut <= around + text.size(); ++cut) {
      EXPECT_EQ(valid_in_pieces(whole, cut), valid) << testing::PrintToString(whole) << " cut at " << cut;
    }
    Utf8Validator byte_by_byte;
    bool good = true;
    for (const char byte : whole) good = good && byte_by_byte.feed({&byte, 1});
    EXPECT_EQ(good && byte_by_byte.complete(), valid) << testing::PrintToString(whole);
  }
}

TEST(Utf8, Accepts) {
  expect_everywhere("", true);
  expect_everywhere("Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!", true);
  expect_everywhere("\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5", true);
  for (const std::uint32_t code : {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xD7FFu, 0xE000u, 0xFFFDu, 0xFFFEu, 0xFFFFu,
                                   0x10000u, 0x1FFFFu, 0x10FFFEu, 0x10FFFFu}) {
    expect_everywhere(encode(code), true);
  }
}

TEST(Utf8, Refuses) {
  const std::vector<std::string> wrong = {
      "\x80",
      "\xbf",
      "\x80\xbf\x80",  // nothing to continue
      "\xc2",
      "\xe0\xa0",
      "\xf0\x90\x80",  // cut
      "\xc3\x28",
      "\xe2\x28\xa1",
      "\xe2\x82\x28",
      "\xf0\x28\x8c\xbc",
      "\xf0\x90\x28\xbc",
      "\xf0\x90\x8c\x28",
      "\xc0\x80",
      "\xc0\xaf",
      "\xc1\xbf",  // overlong
      "\xe0\x80\x80",
      "\xe0\x80\xaf",
      "\xe0\x9f\xbf",
      "\xf0\x80\x80\x80",
      "\xf0\x80\x80\xaf",
      "\xf0\x8f\xbf\xbf",
      "\xf8\x80\x80\x80\xaf",
      "\xfc\x80\x80\x80\x80\xaf",
      "\xed\xa0\x80",
      "\xed\xad\xbf",
      "\xed\xae\x80",
      "\xed\xbf\xbf",
      "\xed\xa0\x80\xed\xb0\x80",  // surrogates
      "\xf4\x90\x80\x80",
      "\xf5\x80\x80\x80",
      "\xf7\xbf\xbf\xbf",  // above U+10FFFF
      "\xfe",
      "\xff",
      "\xfe\xfe\xff\xff",
      "\xf8\x88\x80\x80\x80",
  };
  for (const std::string& text : wrong) expect_everywhere(text, false);
}

TEST(Utf8, EveryCodePointAndNoSurrogate) {
  for (std::uint32_t code = 0; code <= 0x10FFFF; ++code) {
    const std::string text = encode(code);
    const bool valid = code < 0xD800 || code > 0xDFFF;
    ASSERT_EQ(is_utf8(text), valid) << code;
    ASSERT_EQ(valid_in_pieces(text, text.size() / 2), valid) << code;
  }
}

// Compares piecewise validation of all pairs of bytes, completed to whole characters, with whole-text validation.
TEST(Utf8, ThePiecewiseAnswerIsThatOfTheWhole) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      for (const char* end : {"", "\x80", "\x80\x80"}) {
        const std::string text = std::string{static_cast<char>(first), static_cast<char>(second)} + end;
        for (std::size_t cut = 0; cut <= text.size(); ++cut) ASSERT_EQ(valid_in_pieces(text, cut), is_utf8(text));
      }
    }
  }
}

TEST(Utf8, RefusesWithTheByteThatSpoilsIt) {
  Utf8Validator validator;
  EXPECT_TRUE(validator.feed("\xf4"));
  EXPECT_FALSE(validator.feed("\x90"));
  validator.reset();
  EXPECT_TRUE(validator.feed("\xed"));
  EXPECT_FALSE(validator.complete());
  EXPECT_FALSE(validator.feed("\xa0"));
  validator.reset();
  EXPECT_TRUE(validator.feed("ok"));
  EXPECT_TRUE(validator.complete());
}

}  // namespace
}  // namespace sluice::ws
