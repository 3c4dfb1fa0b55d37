#include "api/column_value.h"

#include <string>
#include <tuple>

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

using sql::ColumnKind;
using Kind = Value::Kind;

// "integer 5", or "! must be ...".
std::string converted(ColumnKind column, Kind kind, std::string_view text, std::string_view json = {}) {
  const auto value = column_value(column, {.kind = kind, .text = text, .json = json});
  if (!value) return "! " + std::string(value.error());
  constexpr const char* names[] = {"text ", "integer ", "real ", "boolean ", "bytes "};
  return names[static_cast<std::size_t>(value->type)] + std::string(*value->text);
}

TEST(ColumnValue, NumbersOfJson) {
  const std::tuple<ColumnKind, const char*, const char*> cases[] = {
      {ColumnKind::any, "5", "integer 5"},
      {ColumnKind::integer, "2.0", "real 2.0"},
      {ColumnKind::integer, "2.5", "! must be an integer"},
      {ColumnKind::integer, "1e19", "! must be an integer"},
      {ColumnKind::boolean, "1", "integer 1"},
      {ColumnKind::boolean, "2", "! must be true or false"},
      {ColumnKind::boolean, "1.5", "! must be true or false"},
      {ColumnKind::any, "1.50", "real 1.50"},
      {ColumnKind::any, "9223372036854775807", "integer 9223372036854775807"},
      {ColumnKind::any, "9223372036854775808", "! must be a number of no more digits than 64 bits hold"},
      {ColumnKind::any, "9223372036854775808.0", "real 9223372036854775808.0"},
      {ColumnKind::any, "0.30000000000000004", "real 0.30000000000000004"},
      {ColumnKind::any, "0.300000000000000041", "! must be a number of no more digits than 64 bits hold"},
      {ColumnKind::numeric, "1e400", "! must be a number that fits into 64 bits"},
      {ColumnKind::numeric, "-120e-3", "real -120e-3"},
      {ColumnKind::numeric, "0.0e5", "real 0.0e5"},
      {ColumnKind::json, "12345678901234567890", "! must be a number of no more digits than 64 bits hold"},
      {ColumnKind::real, "12345678901234567890", "real 12345678901234567890"},
      {ColumnKind::real, "1e400", "! must be a number that fits into 64 bits"},
      {ColumnKind::text, "1e400", "text 1e400"},
      {ColumnKind::text, "1.50", "text 1.50"},
      {ColumnKind::by_server, "1e400", "text 1e400"},
      {ColumnKind::server_json, "12345678901234567890", "text 12345678901234567890"},
  };
  for (const auto& [column, text, expected] : cases) EXPECT_EQ(converted(column, Kind::number, text), expected) << text;
}

TEST(ColumnValue, Texts) {
  const std::tuple<ColumnKind, const char*, const char*> cases[] = {
      {ColumnKind::any, "5", "text 5"},
      {ColumnKind::any, "\\x41", "text \\x41"},
      {ColumnKind::text, "\\x41", "text \\x41"},
      {ColumnKind::bytes, "\\x41", "bytes \\x41"},
      {ColumnKind::bytes, "\\x4", "text \\x4"},
      {ColumnKind::boolean, "t", "boolean true"},
      {ColumnKind::boolean, "False", "boolean false"},
      {ColumnKind::boolean, "1", "integer 1"},
      {ColumnKind::boolean, "yes", "! must be true or false"},
      {ColumnKind::boolean, "", "! must be true or false"},
      {ColumnKind::real, "-Infinity", "real -Infinity"},
      {ColumnKind::real, "0.1", "real 0.1"},
      {ColumnKind::real, "NaN", "! must be a number"},
      {ColumnKind::numeric, "1,5", "! must be a number"},
      {ColumnKind::json, "{no", "! must be JSON"},
      {ColumnKind::json, " 12 ", "integer 12"},
      {ColumnKind::other, "Infinity", "text Infinity"},
      {ColumnKind::other, "2026-11-21", "text 2026-11-21"},
      {ColumnKind::other, "7", "integer 7"},
      {ColumnKind::other, "1.5", "real 1.5"},
      {ColumnKind::other, "9223372036854775808.0", "real 9223372036854775808.0"},
      {ColumnKind::value, "1e+20", "real 1e+20"},
      {ColumnKind::value, "-5", "integer -5"},
      {ColumnKind::integer, "-", "! must be an integer"},
      {ColumnKind::integer, "Infinity", "! must be an integer"},
      {ColumnKind::integer, ".5", "! must be an integer"},
      {ColumnKind::integer, "12345678901234567890", "! must be a number of no more digits than 64 bits hold"},
      {ColumnKind::server_json, "12", "text 12"},
  };
  for (const auto& [column, text, expected] : cases) EXPECT_EQ(converted(column, Kind::string, text), expected) << text;
}

TEST(ColumnValue, TextsThatNumericAffinityWouldSpellAnew) {
  constexpr const char* refused = "! must not read like a number that the column stores in another spelling";
  for (const ColumnKind column : {ColumnKind::other, ColumnKind::value}) {
    for (const char* const text : {"007", "+7", " 7", "7 ", "-0", "1.50", "1.0", ".5", "5.", "1e5", "1E+20", "-0.0"}) {
      EXPECT_EQ(converted(column, Kind::string, text), refused) << text;
      const auto compared = column_value(column, {.kind = Kind::string, .text = text}, {.is_stored = false});
      EXPECT_TRUE(compared && compared->type != sql::ParameterType::text) << text;
    }
    EXPECT_EQ(converted(column, Kind::number, "1.50"), "real 1.50");
    EXPECT_EQ(converted(column, Kind::string, "0x10"), "text 0x10");
    EXPECT_EQ(converted(column, Kind::string, "1e"), "text 1e");
  }
  EXPECT_EQ(converted(ColumnKind::numeric, Kind::string, "1.50"), "real 1.50");
}

TEST(ColumnValue, TextsMayBeAllowedInColumnsOfOtherValues) {
  const ColumnUse use{.allows_texts = true};
  for (const ColumnKind column :
       {ColumnKind::integer, ColumnKind::real, ColumnKind::numeric, ColumnKind::boolean, ColumnKind::json}) {
    const auto kept = column_value(column, {.kind = Kind::string, .text = "many"}, use);
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->type, sql::ParameterType::text);
    EXPECT_EQ(kept->text, "many");
  }
  const auto digits = column_value(ColumnKind::numeric, {.kind = Kind::string, .text = "12345678901234567890.5"}, use);
  EXPECT_EQ(digits.error(), "must be a number of no more digits than 64 bits hold");
}

TEST(ColumnValue, WhatIsWrittenInJsonIsThatInJsonsColumns) {
  for (const ColumnKind column : {ColumnKind::json, ColumnKind::server_json}) {
    EXPECT_EQ(converted(column, Kind::string, "a", "\"\\u0061\""), "text \"\\u0061\"");
    EXPECT_EQ(converted(column, Kind::boolean, "true"), "text true");
    EXPECT_EQ(converted(column, Kind::json, "{ }"), "text { }");
    EXPECT_EQ(converted(column, Kind::string, "{}"), "text {}");
  }
  EXPECT_EQ(converted(ColumnKind::text, Kind::string, "a", "\"\\u0061\""), "text a");
  EXPECT_EQ(converted(ColumnKind::text, Kind::boolean, "true"), "text true");
  EXPECT_EQ(converted(ColumnKind::integer, Kind::boolean, "true"), "! must be an integer");
  EXPECT_EQ(converted(ColumnKind::real, Kind::boolean, "false"), "! must be a number");
  EXPECT_EQ(converted(ColumnKind::numeric, Kind::boolean, "true"), "! must be a number");
  EXPECT_EQ(converted(ColumnKind::boolean, Kind::boolean, "true"), "boolean true");
  EXPECT_EQ(converted(ColumnKind::any, Kind::boolean, "true"), "boolean true");
  EXPECT_EQ(converted(ColumnKind::integer, Kind::json, "[1]"), "! must be an integer");
  EXPECT_EQ(converted(ColumnKind::other, Kind::json, "[1]"), "text [1]");
}

}  // namespace
}  // namespace sluice::api
