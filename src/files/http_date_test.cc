#include "files/http_date.h"

#include <gtest/gtest.h>

namespace sluice::files {
namespace {

constexpr std::int64_t rfc_example = 784'111'777;
constexpr std::int64_t now = 1'800'000'000;  // in 2027

TEST(HttpDate, IsWritten) {
  EXPECT_EQ(http_date(rfc_example), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(http_date(-5), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(http_date(951'782'400), "Tue, 29 Feb 2000 00:00:00 GMT");
  EXPECT_EQ(http_date(INT64_MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}

TEST(HttpDate, TheThreeFormsAreRead) {
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT", now), rfc_example);
  EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT", now), rfc_example);
  EXPECT_EQ(parse_http_date("Sun Nov  6 08:49:37 1994", now), rfc_example);
  EXPECT_EQ(parse_http_date("Wed Nov 16 08:49:37 1994", now), rfc_example + 10 * 86'400);
  EXPECT_EQ(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT", now), 0);
}

TEST(HttpDate, WhatIsWrittenIsReadAgain) {
  for (std::int64_t second = 0; second < 253'402'300'799; second += 86'400 * 97 + 12'345) {
    ASSERT_EQ(parse_http_date(http_date(second), now), second);
  }
}

TEST(HttpDate, TwoDigitsAreAtMostFiftyYearsAhead) {
  const auto year_of = [](const char* text) { return http_date(parse_http_date(text, now).value()).substr(12, 4); };
  EXPECT_EQ(year_of("Sunday, 06-Nov-77 08:49:37 GMT"), "2077");
  EXPECT_EQ(year_of("Sunday, 06-Nov-78 08:49:37 GMT"), "1978");
  EXPECT_EQ(year_of("Sunday, 06-Nov-00 08:49:37 GMT"), "2000");
}

TEST(HttpDate, AnythingElseIsNone) {
  for (const char* text : {"",
                           "Sun",
                           "Sun, 06 Nov 1994 08:49:37",
                           "Sun, 06 Nov 1994 08:49:37 UTC",
                           "sun, 06 nov 1994 08:49:37 gmt",
                           "Sun, 6 Nov 1994 08:49:37 GMT",
                           "Sun, 31 Feb 1994 08:49:37 GMT",
                           "Sun, 00 Nov 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 24:00:00 GMT",
                           "Sun, 06 Nov 1994 08:60:37 GMT",
                           "Sun, 06 Nov 1994 08:49:61 GMT",
                           "Sun, 06 Nov 1994 08:49:37 GMT ",
                           "Sun, 06 Nov 94 08:49:37 GMT",
                           "Sunday, 06-Nov-1994 08:49:37 GMT",
                           "Sun, 06-Nov-94 08:49:37 GMT",
                           "Sun Nov 6 08:49:37 1994",
                           "Xyz, 06 Nov 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 08:49:37 GMT; length=5",
                           "784111777",
                           "Sun, 06 Nov -994 08:49:37 GMT"}) {
    EXPECT_FALSE(parse_http_date(text, now)) << text;
  }
}

}  // namespace
}  // namespace sluice::files
