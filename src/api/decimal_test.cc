#include "api/decimal.h"

#include <initializer_list>
#include <utility>

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

TEST(Decimal, EqualNumbersAreEqual) {
  for (const char* one : {"15e-1", "1.5", "01.50", "0.0015e+3", "1.5e0", "150000E-5"}) {
    EXPECT_EQ(parse_decimal(one), (Decimal{false, "15", -1})) << one;
  }
  for (const char* zero : {"0", "-0", "0.00", "0e5", "-.0", "0."}) EXPECT_EQ(parse_decimal(zero), Decimal{}) << zero;
  EXPECT_EQ(parse_decimal("-1200"), (Decimal{true, "12", 2}));
  EXPECT_NE(parse_decimal("1"), parse_decimal("1.00000000000000000000000000000001"));
  EXPECT_NE(parse_decimal("1"), parse_decimal("-1"));
}

TEST(Decimal, AreOrdered) {
  const char* const rising[] = {"-1e3", "-99",  "-2",  "-1.5", "-0.15", "-1e-9", "0",  "1e-9",
                                "0.15", "0.16", "1.5", "2",    "10",    "12",    "99", "1e3"};
  for (std::size_t i = 0; i < std::size(rising); ++i) {
    for (std::size_t j = 0; j < std::size(rising); ++j) {
      EXPECT_EQ(*parse_decimal(rising[i]) <=> *parse_decimal(rising[j]), i <=> j) << rising[i] << ' ' << rising[j];
    }
  }
}

TEST(Decimal, ArePlainInOneWay) {
  for (const auto& [text, is] : std::initializer_list<std::pair<const char*, const char*>>{{"-0", "0"},
                                                                                           {"007", "7"},
                                                                                           {"-15e2", "-1500"},
                                                                                           {"1.50", "1.5"},
                                                                                           {"15e-3", "0.015"},
                                                                                           {"-12345e-2", "-123.45"}}) {
    EXPECT_EQ(plain(*parse_decimal(text)), is);
  }
}

TEST(Decimal, OtherTextsAreNone) {
  for (const char* none : {"",      "-",   ".",   "-.",  "+1",        "1 ",         " 1",
                           "1,5",   "0x1", "1e",  "1e+", "1e++1",     "1e+-1",      "1e-+1",
                           "1.2.3", "--1", "nan", "inf", "1e1000001", "1e-1000001", "1e99999999999999999999"}) {
    EXPECT_FALSE(parse_decimal(none)) << none;
  }
}

}  // namespace
}  // namespace sluice::api
