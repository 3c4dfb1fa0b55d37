#include "files/coding.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::files {
namespace {

// The coding for a file of 100 bytes, with gz (60 bytes), br (40) and zst (50) beside it.
std::string chosen(std::vector<http::Field> fields, std::array<std::uint64_t, coding_count> sizes = {100, 60, 40, 50}) {
  const Coding coding = choose_coding(fields, sizes);
  return coding == Coding::identity ? "identity" : std::string(name_of(coding));
}
std::string chosen(std::string_view accepted) { return chosen({{"Accept-Encoding", accepted}}); }

TEST(Coding, WhatIsWantedMost) {
  EXPECT_EQ(chosen(std::vector<http::Field>{}), "identity") << "clients that say nothing know none";
  EXPECT_EQ(chosen(""), "identity");
  EXPECT_EQ(chosen("gzip"), "gzip");
  EXPECT_EQ(chosen("x-gzip"), "gzip");
  EXPECT_EQ(chosen("GZIP"), "gzip");
  EXPECT_EQ(chosen("gzip, deflate, br, zstd"), "br") << "the shortest among equals";
  EXPECT_EQ(chosen("gzip;q=1.0, br;q=0.9, zstd;q=0.5"), "gzip");
  EXPECT_EQ(chosen("gzip ; q=0.001"), "gzip");
  EXPECT_EQ(chosen("*"), "br");
  EXPECT_EQ(chosen("br;q=0, *"), "zstd");
  EXPECT_EQ(chosen("identity"), "identity");
  EXPECT_EQ(chosen("identity, gzip"), "gzip");
  EXPECT_EQ(chosen("identity;q=0.5, gzip;q=0.4"), "identity");
  EXPECT_EQ(chosen("gzip;q=0"), "identity");
  EXPECT_EQ(chosen("gzip;q=0, identity;q=0"), "identity") << "better than nothing";
  EXPECT_EQ(chosen("*;q=0"), "identity");
  EXPECT_EQ(chosen("deflate, compress"), "identity");
  EXPECT_EQ(chosen({{"accept-encoding", "gzip;q=0.5"}, {"Accept-Encoding", "zstd"}}), "zstd") << "one list";
}

TEST(Coding, OnlyWhatIsThere) {
  EXPECT_EQ(chosen({{"Accept-Encoding", "br, gzip"}}, {100, 60, 0, 0}), "gzip");
  EXPECT_EQ(chosen({{"Accept-Encoding", "br"}}, {100, 60, 0, 50}), "identity");
  EXPECT_EQ(chosen({{"Accept-Encoding", "*"}}, {0, 0, 0, 0}), "identity");
  EXPECT_EQ(chosen({{"Accept-Encoding", "gzip"}}, {10, 60, 0, 0}), "gzip")
      << "what the client wants, not what is short";
}

TEST(Coding, WhatDoesNotParseIsPassedOver) {
  EXPECT_EQ(chosen(",, gzip"), "gzip");
  for (const char* weight : {"q=", "q=2", "q=1.5", "q=1.001", "q=-1", "q=0.1234", "q=.5", "q=0,5", "x=1", "q"}) {
    EXPECT_EQ(chosen("gzip;" + std::string(weight)), "identity") << weight;
  }
  EXPECT_EQ(chosen("gzip;q=0.9, gzip;q=0"), "gzip") << "the first counts";
  EXPECT_EQ(chosen("gzip x"), "identity");
}

}  // namespace
}  // namespace sluice::files
