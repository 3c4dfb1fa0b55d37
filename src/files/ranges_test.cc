#include "files/ranges.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::files {
namespace {

using Kind = RangeSet::Kind;

std::string text_of(const RangeSet& set) {
  std::string text;
  for (const ByteRange& part : set.parts()) {
    if (!text.empty()) text += ' ';
    text += std::to_string(part.begin) + "+" + std::to_string(part.size);
  }
  return text;
}
std::string parts(std::string_view field, std::uint64_t size = 10'000) {
  const RangeSet set(field, size);
  EXPECT_EQ(set.kind(), Kind::parts) << field;
  return text_of(set);
}
Kind kind(std::string_view field, std::uint64_t size = 10'000) { return RangeSet(field, size).kind(); }

TEST(Ranges, One) {
  EXPECT_EQ(parts("bytes=0-499"), "0+500");
  EXPECT_EQ(parts("bytes=500-999"), "500+500");
  EXPECT_EQ(parts("bytes=0-0"), "0+1");
  EXPECT_EQ(parts("bytes=-500"), "9500+500");
  EXPECT_EQ(parts("bytes=9500-"), "9500+500");
  EXPECT_EQ(parts("bytes=0-"), "0+10000");
  EXPECT_EQ(parts("bytes=9999-10000"), "9999+1");
  EXPECT_EQ(parts("bytes=9000-99999999999999999999999999"), "9000+1000");
  EXPECT_EQ(parts("bytes=-99999999999999999999999999"), "0+10000");
  EXPECT_EQ(parts("BYTES=0-1"), "0+2") << "units compare without case";
  EXPECT_EQ(parts("bytes=00000000000000000000000001-2"), "1+2");
}

TEST(Ranges, Several) {
  EXPECT_EQ(parts("bytes=0-0,-1"), "0+1 9999+1");
  EXPECT_EQ(parts("bytes= 0-9 ,\t1000-1009 , 2000-2009"), "0+10 1000+10 2000+10");
  EXPECT_EQ(parts("bytes=,0-9,,1000-1009,"), "0+10 1000+10");
  EXPECT_EQ(parts("bytes=2000-2009,0-9"), "2000+10 0+10") << "the order stays";
  EXPECT_EQ(parts("bytes=0-9,20000-30000"), "0+10") << "what cannot be had is left out";
}

TEST(Ranges, NearOnesBecomeOne) {
  EXPECT_EQ(parts("bytes=0-9,5-19"), "0+20");
  EXPECT_EQ(parts("bytes=0-9,10-19"), "0+20");
  EXPECT_EQ(parts("bytes=0-9,138-139"), "0+140");
  EXPECT_EQ(parts("bytes=0-9,139-139"), "0+10 139+1");
  EXPECT_EQ(parts("bytes=139-139,0-9"), "139+1 0+10");
  EXPECT_EQ(parts("bytes=138-139,0-9"), "0+140");
  EXPECT_EQ(parts("bytes=1000-1009,3000-3009,5000-5009,0-4900"), "0+5010") << "what grows takes in others";
  EXPECT_EQ(parts("bytes=8000-8009,1000-1009,3000-3009,900-3010"), "8000+10 900+2111");
  EXPECT_EQ(parts("bytes=0-,0-,0-,5-6"), "0+10000");
  EXPECT_EQ(parts("bytes=0-18446744073709551615,-1"), "0+10000");
}

TEST(Ranges, WhatCannotBeHad) {
  EXPECT_EQ(kind("bytes=10000-"), Kind::unsatisfiable);
  EXPECT_EQ(kind("bytes=10000-10001,20000-"), Kind::unsatisfiable);
  EXPECT_EQ(kind("bytes=-0"), Kind::unsatisfiable);
  EXPECT_EQ(kind("bytes=99999999999999999999999999-"), Kind::unsatisfiable);
  EXPECT_EQ(kind("bytes=0-", 0), Kind::unsatisfiable);
  EXPECT_EQ(kind("bytes=-0", 0), Kind::unsatisfiable);
  EXPECT_EQ(kind("bytes=-1", 0), Kind::whole) << "the last byte of nothing is all of it";
}

TEST(Ranges, WhatIsNoRangeIsIgnored) {
  for (const char* field : {"",
                            "bytes",
                            "bytes=",
                            "bytes= ",
                            "bytes=,",
                            "bytes=-",
                            "bytes=5",
                            "bytes=5-4",
                            "bytes=a-b",
                            "bytes=0-1-2",
                            "bytes=--1",
                            "bytes=+1-2",
                            "bytes=1 -2",
                            "bytes=1- 2",
                            "bytes=0x1-2",
                            "bytes =0-1",
                            "lines=0-1",
                            "byte=0-1",
                            "bytes=0-1;2-3",
                            "bytes=0-1,x",
                            "bytes=x,0-1",
                            "bytes=0-1,5-4",
                            "bytes=1.5-2",
                            "0-1",
                            "=0-1",
                            "none"}) {
    EXPECT_EQ(kind(field), Kind::whole) << field;
  }
}

TEST(Ranges, TooManyAreIgnored) {
  std::string field = "bytes=0-0";
  for (std::size_t i = 1; i < RangeSet::most_ranges; ++i) {
    field += "," + std::to_string(i * 200) + "-" + std::to_string(i * 200);
  }
  const RangeSet most(field, 10'000);
  EXPECT_EQ(most.kind(), Kind::parts);
  EXPECT_EQ(most.parts().size(), RangeSet::most_ranges);
  EXPECT_EQ(kind(field + ",9999-9999"), Kind::whole);
  EXPECT_EQ(kind(field + ",20000-"), Kind::whole);
}

}  // namespace
}  // namespace sluice::files
