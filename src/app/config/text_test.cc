#include "app/config/text.h"

#include <array>

#include <gtest/gtest.h>

namespace sluice::app::config {
namespace {

TEST(Durations, ReadAndWritten) {
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("10s"), 10s);
  EXPECT_EQ(parse_duration("1h30m"), 90min);
  EXPECT_EQ(parse_duration("1d2h3m4s5ms6us"), 24h + 2h + 3min + 4s + 5ms + 6us);
  EXPECT_EQ(parse_duration("0"), 0s);
  EXPECT_EQ(parse_duration("0s"), 0s);
  EXPECT_EQ(format_duration(90min), "1h30m");
  EXPECT_EQ(format_duration(0s), "0s");
  EXPECT_EQ(format_duration(1500ms), "1s500ms");
}

TEST(Durations, Refused) {
  for (const char* text : {"", "10", "s", "10 s", " 10s", "10s ", "-1s", "1.5s", "10x", "10S", "1s1s", "1s1m", "s10",
                           "106752d", "9223372036854775807d", "99999999999999999999s", "106751d24h"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
  EXPECT_TRUE(parse_duration("106751d"));  // the largest number of days whose nanoseconds fit into an int64
}

TEST(Sizes, ReadAndWritten) {
  EXPECT_EQ(parse_size("512"), 512_B);
  EXPECT_EQ(parse_size("512B"), 512_B);
  EXPECT_EQ(parse_size("16KiB"), 16_KiB);
  EXPECT_EQ(parse_size("2GiB"), 2_GiB);
  EXPECT_EQ(format_size(16_KiB), "16KiB");
  EXPECT_EQ(format_size(1025_B), "1025B");
  EXPECT_EQ(format_size(0_B), "0");
}

TEST(Sizes, Refused) {
  for (const char* text : {"", "KiB", "-1", "16 KiB", "16kb", "16K", "1.5MiB", "1MiB1KiB", "9223372036854775807KiB",
                           "99999999999999999999"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

TEST(DidYouMean, NearestOrNothing) {
  constexpr std::array<std::string_view, 4> keys = {"listen", "cores", "header_limit", "header_timeout"};
  EXPECT_EQ(nearest("lisen", keys), "listen");
  EXPECT_EQ(nearest("listne", keys), "listen");  // a transposition counts as one edit
  EXPECT_EQ(nearest("header-timeout", keys), "header_timeout");
  EXPECT_EQ(nearest("header_limits", keys), "header_limit");
  EXPECT_EQ(nearest("header", keys), "header_limit");  // the first candidate that begins with it
  EXPECT_EQ(nearest("coresperprocess", keys), "cores");
  EXPECT_EQ(nearest("he", keys), "");
  EXPECT_EQ(nearest("tls", keys), "");
  EXPECT_EQ(nearest("", keys), "");
  EXPECT_EQ(nearest(std::string(100, 'c'), keys), "");
  EXPECT_EQ(did_you_mean("core", keys), "did you mean \"cores\"?");
  EXPECT_EQ(did_you_mean("x", keys), "");
}

}  // namespace
}  // namespace sluice::app::config
