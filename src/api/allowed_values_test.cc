#include "api/allowed_values.h"

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

using sql::ParameterType;

std::shared_ptr<const AllowedValues> between(std::optional<double> min, std::optional<double> max) {
  ParamOptions options;
  if (min) options.min = Located<double>(*min);
  if (max) options.max = Located<double>(*max);
  return allowed_values(options);
}

std::shared_ptr<const AllowedValues> of(std::initializer_list<const char*> values) {
  ParamOptions options;
  for (const char* const one : values) options.values.emplace_back(Scalar{one});
  return allowed_values(options);
}

TEST(AllowedValues, NoneWithoutARule) { EXPECT_EQ(allowed_values({}), nullptr); }

TEST(AllowedValues, BoundsAreAllowedThemselves) {
  const auto both = between(1, 100);
  for (const char* const inside : {"1", "01", "1.0", "1e2", "100", "99.9999999999999999999999"}) {
    EXPECT_TRUE(both->contain(inside, ParameterType::real)) << inside;
  }
  for (const char* const outside : {"0", "-1", "0.99999999999999999999", "100.00000000000000000001", "101", "1e3", "",
                                    "x", "NaN", "Infinity", "true", "9223372036854775807"}) {
    EXPECT_FALSE(both->contain(outside, ParameterType::real)) << outside;
  }
  EXPECT_EQ(both->reason, "must be from 1 to 100");
  EXPECT_EQ(between(-0.1, {})->reason, "must be at least -0.1");
  EXPECT_TRUE(between(-0.1, {})->contain("-0.1", ParameterType::real));
  EXPECT_FALSE(between(-0.1, {})->contain("-0.10001", ParameterType::real));
  EXPECT_EQ(between({}, 1e18)->reason, "must be at most 1000000000000000000");
  EXPECT_TRUE(between({}, 1e18)->contain("-5", ParameterType::integer));
}

TEST(AllowedValues, TextsAreComparedAsTheyAre) {
  const auto words = of({"name", "1"});
  EXPECT_EQ(words->reason, "must be one of: name, 1");
  EXPECT_TRUE(words->contain("name", ParameterType::text));
  for (const char* const other : {"Name", "name ", "", "01", "1.0", "nam"}) {
    EXPECT_FALSE(words->contain(other, ParameterType::text)) << other;
  }
}

TEST(AllowedValues, NotationsOfANumberAreEqual) {
  const auto numbers = of({"1", "2.50"});
  for (const char* const same : {"1", "1.0", "10e-1", "2.5", "2.50", "02.500"}) {
    EXPECT_TRUE(numbers->contain(same, ParameterType::real)) << same;
  }
  for (const char* const other : {"2", "2.51", "x", ""}) {
    EXPECT_FALSE(numbers->contain(other, ParameterType::real)) << other;
  }
  EXPECT_TRUE(of({"true"})->contain("1", ParameterType::boolean));
  EXPECT_FALSE(of({"true"})->contain("0", ParameterType::boolean));
}

}  // namespace
}  // namespace sluice::api
