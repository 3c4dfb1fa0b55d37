#include "core/ip_ranges.h"

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::core {
namespace {

IpRanges ranges(std::initializer_list<std::string_view> texts) {
  IpRanges made;
  for (const std::string_view text : texts) EXPECT_TRUE(made.add(text)) << text;
  made.seal();
  return made;
}

bool contains(const IpRanges& all, std::string_view text) {
  const auto ip = Ip::parse(text);
  EXPECT_TRUE(ip) << text;
  return ip && all.contains(*ip);
}

TEST(Ip, ReadsBothFamilies) {
  EXPECT_EQ(Ip::parse("1.2.3.4"), (Ip{0, 0xffff'0102'0304}));
  EXPECT_EQ(Ip::parse("::ffff:1.2.3.4"), Ip::parse("1.2.3.4"));
  EXPECT_EQ(Ip::parse("2001:DB8::1"), (Ip{0x2001'0db8'0000'0000, 1}));
  EXPECT_EQ(Ip::parse("::"), (Ip{0, 0}));
  for (const std::string_view bad :
       {"", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.4 ", " 1.2.3.4", "0x1.2.3.4", "1.2.3.4:80",
        "[::1]", "fe80::1%eth0", "::1::", "12345::", "localhost", "1.2.3.4/8", "::ffff:1.2.3",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999", "1111:2222:3333:4444:5555:6666:123.123.123.1234"}) {
    EXPECT_FALSE(Ip::parse(bad)) << bad;
  }
  EXPECT_FALSE(Ip::parse(std::string_view("1.2.3.4\0", 8)));
}

TEST(IpRanges, SaysWhatIsWrong) {
  for (const std::string_view good : {"1.2.3.4", "0.0.0.0/0", "10.0.0.0/8", "1.2.3.4/32", "1.2.3.128/25", "::/0",
                                      "::1/128", "2001:db8::/32", "fe80::/10", "::ffff:10.0.0.0/104"}) {
    EXPECT_EQ(IpRanges::check(good), "") << good;
  }
  for (const std::string_view bad : {"", "/", "/8", "10/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8",
                                     "10.0.0.0/08", "10.0.0.0/8 ", "10.0.0.0/8/8", "10.0.0.0/255.0.0.0", "::/129",
                                     "10.0.0.0/4294967304", "all", "10.0.0.0-10.0.0.9", "[::1]/128"}) {
    EXPECT_NE(IpRanges::check(bad), "") << bad;
    EXPECT_FALSE(IpRanges().add(bad)) << bad;
  }
  for (const std::string_view bad :
       {"10.0.0.1/8", "1.2.3.4/0", "1.2.3.129/25", "::1/0", "2001:db8::1/64", "fe90::/9", "::ffff:10.0.0.1/104"}) {
    EXPECT_EQ(IpRanges::check(bad), "has bits set behind its prefix") << bad;
  }
}

TEST(IpRanges, HoldsWhatItsPrefixesHold) {
  const IpRanges all = ranges({"10.0.0.0/8", "192.168.1.7", "2001:db8::/33", "::1"});
  for (const std::string_view in : {"10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3", "192.168.1.7", "2001:db8::", "::1",
                                    "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff"}) {
    EXPECT_TRUE(contains(all, in)) << in;
  }
  for (const std::string_view out : {"9.255.255.255", "11.0.0.0", "192.168.1.6", "192.168.1.8", "2001:db8:8000::", "::",
                                     "::2", "::10.1.2.3", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff"}) {
    EXPECT_FALSE(contains(all, out)) << out;
  }
  EXPECT_FALSE(IpRanges().contains(*Ip::parse("1.2.3.4")));
}

TEST(IpRanges, AllOfAFamilyIsNothingOfTheOther) {
  const IpRanges v4 = ranges({"0.0.0.0/0"});
  EXPECT_TRUE(contains(v4, "0.0.0.0") && contains(v4, "255.255.255.255") && contains(v4, "::ffff:1.2.3.4"));
  EXPECT_FALSE(contains(v4, "::") || contains(v4, "ffff::") || contains(v4, "::1:0:0:0"));
  const IpRanges v6 = ranges({"::/0"});
  EXPECT_TRUE(contains(v6, "::") && contains(v6, "::fffe:ffff:ffff") && contains(v6, "::1:0:0:0") &&
              contains(v6, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
  EXPECT_FALSE(contains(v6, "0.0.0.0") || contains(v6, "255.255.255.255"));
  const IpRanges mapped = ranges({"::ffff:0:0/96"});
  EXPECT_TRUE(contains(mapped, "1.2.3.4"));
}

TEST(IpRanges, MergesWhatOverlaps) {
  const IpRanges all = ranges({"10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8", "10.255.255.255", "11.0.0.0/24"});
  EXPECT_EQ(all.size(), 2U);
  EXPECT_TRUE(contains(all, "10.2.0.0") && contains(all, "11.0.0.255"));
  EXPECT_FALSE(contains(all, "11.0.1.0"));
}

TEST(IpRanges, AgreesWithMasks) {
  std::mt19937 random(7);
  struct Mask {
    std::uint32_t address, bits;
  };
  std::vector<Mask> masks;
  IpRanges all;
  for (int i = 0; i < 500; ++i) {
    const unsigned length = 8 + random() % 25;
    const std::uint32_t bits = ~std::uint32_t{0} << (32 - length);
    const std::uint32_t address = random() & bits & 0x0fff'ffff;
    masks.push_back({address, bits});
    EXPECT_TRUE(all.add(std::to_string(address >> 24) + "." + std::to_string(address >> 16 & 255) + "." +
                        std::to_string(address >> 8 & 255) + "." + std::to_string(address & 255) + "/" +
                        std::to_string(length)));
  }
  all.seal();
  std::size_t inside = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto address = static_cast<std::uint32_t>(random() & 0x1fff'ffff);
    const bool is_in = std::ranges::any_of(masks, [&](const Mask& m) { return (address & m.bits) == m.address; });
    ASSERT_EQ(all.contains(Ip{0, std::uint64_t{0xffff'0000'0000} | address}), is_in) << address;
    inside += is_in ? 1 : 0;
  }
  EXPECT_GT(inside, 100U);
  EXPECT_LT(inside, 4900U);
}

}  // namespace
}  // namespace sluice::core
