#include "api/resident/since.h"

#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"

namespace sluice::api::resident {
namespace {

// Notes the values in this order. Returns the greatest.
sql::Argument greatest(Since& since, const sql::Column& column, const std::vector<TestValue>& values) {
  TestRows rows({column});
  for (const TestValue& value : values) rows.row({value});
  const sql::Block block = rows.block();
  for (std::size_t i = 0; i < block.rows; ++i) EXPECT_TRUE(since.note(*ValueType::of(column), block.row(i)[0])) << i;
  return since.argument();
}

TEST(ResidentSince, TheGreatestByItsType) {
  Since number;
  EXPECT_EQ(greatest(number, column_of("v", sql::Form::number, 20), {"9", "10", nullptr, "-3"}).text, "10");
  Since decimal;
  EXPECT_EQ(greatest(decimal, column_of("v", sql::Form::number, 1700), {"1.50", "1.5", "0.9"}).text, "1.50");
  Since time;
  EXPECT_EQ(greatest(time, column_of("v", sql::Form::timestamp_tz, 1184),
                     {"2026-11-22 12:00:00+01", "2026-11-22 11:30:00+00", "2026-11-22 12:10:00+01"})
                .text,
            "2026-11-22 11:30:00+00");
}

TEST(ResidentSince, NullIsNoVersion) {
  const sql::Column column = column_of("v", sql::Form::number, 20);
  TestRows rows({column});
  rows.row({nullptr}).row({"x"});
  const sql::Block block = rows.block();
  Since since;
  EXPECT_TRUE(since.note(*ValueType::of(column), block.row(0)[0]));
  EXPECT_FALSE(since.known());
  EXPECT_FALSE(since.note(*ValueType::of(column), block.row(1)[0]));
  EXPECT_FALSE(since.known());
}

// SQLite compares numbers only with numbers.
TEST(ResidentSince, TheArgumentHasTheValuesType) {
  const sql::Column column = sqlite_column("v", "");
  const auto type = [&](const TestValue& value) {
    Since since;
    return greatest(since, column, {value}).type;
  };
  EXPECT_EQ(type({"12", sql::Form::number}), sql::ParameterType::integer);
  EXPECT_EQ(type({"-1.5e3", sql::Form::number}), sql::ParameterType::real);
  EXPECT_EQ(type({"12", sql::Form::text}), sql::ParameterType::text);
  Since postgres;
  EXPECT_EQ(greatest(postgres, column_of("v", sql::Form::number, 20), {"12"}).type, sql::ParameterType::text);
}

}  // namespace
}  // namespace sluice::api::resident
