#include "base/utf8.h"

#include <string>

#include <gtest/gtest.h>

#include "base/hex.h"

namespace sluice {
namespace {

std::string utf8(std::uint32_t code) {
  std::string out = "<";
  append_utf8(out, code);
  return out;
}

TEST(Utf8, TheFirstAndTheLastOfEachLength) {
  EXPECT_EQ(utf8(0), std::string("<\0", 2));
  EXPECT_EQ(utf8(0x7f), "<\x7f");
  EXPECT_EQ(utf8(0x80), "<\xc2\x80");
  EXPECT_EQ(utf8(0x7ff), "<\xdf\xbf");
  EXPECT_EQ(utf8(0x800), "<\xe0\xa0\x80");
  EXPECT_EQ(utf8(0xffff), "<\xef\xbf\xbf");
  EXPECT_EQ(utf8(0x10000), "<\xf0\x90\x80\x80");
  EXPECT_EQ(utf8(0x10ffff), "<\xf4\x8f\xbf\xbf");
  EXPECT_EQ(utf8(0x2603), "<☃");
}

TEST(Utf8, Surrogates) {
  for (std::uint32_t unit = 0xd7f0; unit < 0xe010; ++unit) {
    EXPECT_EQ(is_high_surrogate(unit), unit >= 0xd800 && unit <= 0xdbff) << unit;
    EXPECT_EQ(is_low_surrogate(unit), unit >= 0xdc00 && unit <= 0xdfff) << unit;
  }
  EXPECT_EQ(join_surrogates(0xd800, 0xdc00), 0x10000u);
  EXPECT_EQ(join_surrogates(0xd83d, 0xde00), 0x1f600u);
  EXPECT_EQ(join_surrogates(0xdbff, 0xdfff), 0x10ffffu);
}

TEST(Hex, EveryByte) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::size_t at = std::string("0123456789abcdefABCDEF").find(static_cast<char>(byte));
    const int wanted = at == std::string::npos ? -1 : static_cast<int>(at < 16 ? at : at - 6);
    EXPECT_EQ(hex_digit(static_cast<char>(byte)), wanted) << byte;
  }
}

}  // namespace
}  // namespace sluice
