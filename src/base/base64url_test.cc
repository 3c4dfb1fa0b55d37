#include "base/base64url.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Base64url, BothWays) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    std::string decoded = "left over";
    const std::string text = encode_base64url(bytes);
    EXPECT_EQ(text.find_first_of("+/="), text.npos);
    ASSERT_TRUE(decode_base64url(text, decoded)) << text;
    EXPECT_EQ(decoded, bytes);
    bytes.push_back(static_cast<char>(i * 89 + 200));
  }
  // RFC 7515, C.
  EXPECT_EQ(encode_base64url(std::string("\x03\xec\xff\xe0\xc1", 5)), "A-z_4ME");
}

TEST(Base64url, OnlyOneTextForTheSameBytes) {
  std::string out;
  EXPECT_TRUE(decode_base64url("", out));
  EXPECT_TRUE(decode_base64url("QQ", out));
  EXPECT_EQ(out, "A");
  for (const char* text : {"Q", "QUFBQ", "QR", "QV", "Qf", "QUF", "QUJ", "QUH", "QQ==", "QUE=", "Q Q", "QQ\n", " QQ",
                           "QQ+Q", "QQ/Q", "QQ.Q", "Q\xc3\xa4", "QQ="}) {
    EXPECT_FALSE(decode_base64url(text, out)) << text;
  }
  EXPECT_FALSE(decode_base64url(std::string_view("QQ\0Q", 4), out));
}

// Each text of 2 or 3 characters is either refused or the only encoding of its bytes.
TEST(Base64url, EveryShortText) {
  int good = 0;
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const char text[] = {static_cast<char>(first), static_cast<char>(second)};
      std::string out;
      if (!decode_base64url({text, 2}, out)) continue;
      ++good;
      EXPECT_EQ(encode_base64url(out), std::string_view(text, 2));
    }
  }
  EXPECT_EQ(good, 256);
}

}  // namespace
}  // namespace sluice
