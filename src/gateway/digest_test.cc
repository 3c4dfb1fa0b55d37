#include "gateway/digest.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

TEST(Digest, IsSha256) {
  Sha256 sha256;
  // FIPS 180-2, B.1
  constexpr const char* abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(sha256.of("abc").hex(), abc);
  EXPECT_EQ(sha256.of("a", "bc"), sha256.of("abc")) << "used again";
  EXPECT_EQ(sha256.of("").hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_NE(sha256.of(std::string_view("abc\0", 4)), sha256.of("abc"));
  EXPECT_NE(sha256.of("ABC"), sha256.of("abc"));
  EXPECT_EQ(Digest::parse(abc), sha256.of("abc"));
}

TEST(Digest, IsReadFromHex) {
  const std::string hex(64, 'a');
  EXPECT_EQ(Digest::parse(hex)->hex(), hex);
  EXPECT_EQ(Digest::parse(std::string(64, 'A'))->hex(), hex);
  EXPECT_FALSE(Digest::parse(""));
  EXPECT_FALSE(Digest::parse(hex.substr(1)));
  EXPECT_FALSE(Digest::parse(hex + "a"));
  EXPECT_FALSE(Digest::parse(hex.substr(1) + "g"));
  EXPECT_FALSE(Digest::parse(hex.substr(1) + " "));
}

}  // namespace
}  // namespace sluice::gateway
