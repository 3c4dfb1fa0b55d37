#include "sql/sqlite/real.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace sluice::sql::sqlite {
namespace {

std::string written(double value) {
  char text[40];
  return {text, write_real(text, value)};
}

std::string expected(double value) {
  char text[40];
  std::string made(text, std::to_chars(text, text + sizeof text, value).ptr);
  if (made.find_first_of(".e") == made.npos) made += ".0";
  return made;
}

TEST(WriteReal, Examples) {
  EXPECT_EQ(written(0), "0.0");
  EXPECT_EQ(written(-0.0), "-0.0");
  EXPECT_EQ(written(7), "7.0");
  EXPECT_EQ(written(-7.25), "-7.25");
  EXPECT_EQ(written(0.001), "0.001");
  EXPECT_EQ(written(1.05), "1.05");
  EXPECT_EQ(written(100000), "1e+05");
  EXPECT_EQ(written(0.1 + 0.2), "0.30000000000000004");
}

TEST(WriteReal, IsWhatToCharsWrites) {
  const auto same = [](double value) {
    for (const double one : {value, -value, std::nextafter(value, 1e300), std::nextafter(value, -1e300)}) {
      ASSERT_EQ(written(one), expected(one));
    }
  };
  for (const double value : {0.0, 1e-3, 1e-4, 0.5e-3, 1e12, 999'999'999'999.999, 123'456'789'012.345, 0x1p53, 1e15,
                             1e16, 1e300, 5e-324, std::numeric_limits<double>::max()}) {
    same(value);
  }
  for (int i = 0; i < 200'000; ++i) same(i / 1000.0);
  for (double whole = 1; whole < 1e17; whole *= 10) {
    for (int i = 1; i < 200; ++i) same(whole * i);
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) same(value);
    const auto digits = static_cast<double>(random() % 1'000'000'000'000'000);
    for (const double scale : {1.0, 10.0, 100.0, 1000.0, 10'000.0}) same(digits / scale);
  }
}

}  // namespace
}  // namespace sluice::sql::sqlite
