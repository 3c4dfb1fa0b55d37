#include "api/resident/value.h"

#include <algorithm>
#include <compare>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/resident/rows_for_tests.h"

namespace sluice::api::resident {
namespace {

// A key that owns its memory, for comparisons.
struct Made {
  bool fixed;
  std::uint64_t number;
  std::string bytes;
  auto operator<=>(const Made&) const = default;
};

std::optional<Made> made(Kind kind, std::string_view text) {
  std::string scratch;
  Key key;
  if (!make_key(kind, text, scratch, key)) return std::nullopt;
  if (is_fixed(kind)) return Made{true, key.number, {}};
  return Made{false, 0, std::string(key.bytes)};
}

// Values of one kind. The values of a line are equal, and each line is greater than the line before.
void expect_order(Kind kind, const std::vector<std::vector<std::string_view>>& lines) {
  std::optional<Made> before;
  for (const auto& line : lines) {
    const auto first = made(kind, line.front());
    ASSERT_TRUE(first) << line.front();
    if (before) EXPECT_LT(*before, *first) << line.front();
    for (const std::string_view text : line) EXPECT_EQ(made(kind, text), first) << text;
    before = first;
  }
}

void expect_refused(Kind kind, const std::vector<std::string_view>& texts) {
  for (const std::string_view text : texts) EXPECT_FALSE(made(kind, text)) << '"' << text << '"';
}

TEST(ResidentValue, DecimalsAreOneHoweverTheyAreSpelled) {
  expect_order(Kind::number, {{"-Infinity"},
                              {"-1e31999", "-10E31998"},
                              {"-100000000000000000000000000000000000001"},
                              {"-100000000000000000000000000000000000000", "-1e38", "-1e+38", "-1.E38"},
                              {"-10.5", "-010.50", "-105e-1"},
                              {"-10"},
                              {"-1.51"},
                              {"-1.5", "-1.50", "-15e-1", "-0.15e1", "-15000E-4"},
                              {"-1.499999999999999999999999999999999999"},
                              {"-1"},
                              {"-.5", "-0.5"},
                              {"-0.05", "-5e-2"},
                              {"-1e-31999"},
                              {"0", "-0", "+0", "0.0", "-0.000", "0e5", "0e-999999", ".0", "0.", "00"},
                              {"1e-31999", "0.1e-31998"},
                              {"0.05"},
                              {"0.5", ".5", "5e-1"},
                              {"1", "1.0", "1.", "01", "+1", "1e0", "1e-0", "1e+0", "100e-2"},
                              {"1.499999999999999999999999999999999999"},
                              {"1.5", "1.50", "15e-1", "+1.5", "0.15e1", "15000e-4"},
                              {"1.51"},
                              {"9"},
                              {"9.9"},
                              {"9.99"},
                              {"10", "1e1"},
                              {"99"},
                              {"100", "1e2"},
                              {"9223372036854775807"},
                              {"9223372036854775808"},
                              {"1e31999"},
                              {"Infinity"},
                              {"NaN"}});
}

TEST(ResidentValue, WhatIsNoDecimalIsRefused) {
  expect_refused(Kind::number, {"",           ".",
                                "-",          "+",
                                "e",          "e5",
                                "1e",         "1e+",
                                "1e-",        "1e++5",
                                "1e+-5",      "1e-+5",
                                "1e--5",      "1e5.0",
                                "--1",        "+-1",
                                "-+1",        "1.2.3",
                                "1,5",        " 1",
                                "1 ",         "0x10",
                                "nan",        "inf",
                                "-NaN",       "1e5 ",
                                "1e40000",    "1e-40000",
                                "0e99999999", "1e99999999999999999999",
                                "1_000",      std::string_view("1\0", 2)});
}

// A decimal as its sign, its digits without zeros at either end, and the position of the point.
struct Plain {
  int sign = 0;
  std::string digits;
  int point = 0;
};

std::strong_ordering compare(const Plain& a, const Plain& b) {
  if (a.sign != b.sign) return a.sign <=> b.sign;
  if (a.sign == 0) return std::strong_ordering::equal;
  auto order = a.point <=> b.point;
  if (order == 0) order = a.digits.compare(b.digits) <=> 0;  // without zeros at the end, a prefix is less
  return a.sign > 0 ? order : 0 <=> order;
}

TEST(ResidentValue, RandomDecimalsAreInTheirOrder) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  struct One {
    Plain plain;
    std::string spelled;
    Made key;
  };
  std::vector<One> all;
  for (int i = 0; i < 600; ++i) {
    Plain plain;
    for (int n = below(i % 2 == 0 ? 4 : 30); n > 0; --n) plain.digits.push_back(static_cast<char>('0' + below(10)));
    plain.point = below(7) - 3;
    const std::size_t first = plain.digits.find_first_not_of('0');
    if (first == plain.digits.npos) {
      plain = {};
    } else {
      plain.digits = plain.digits.substr(first, plain.digits.find_last_not_of('0') + 1 - first);
      plain.sign = below(2) == 0 ? 1 : -1;
    }
    // In two notations: the point at a random position, extra zeros, and an exponent that compensates for them.
    for (int spelling = 0; spelling < 2; ++spelling) {
      std::string digits = std::string(static_cast<std::size_t>(below(4)), '0');
      const int zeros = static_cast<int>(digits.size());
      digits += plain.digits + std::string(static_cast<std::size_t>(below(4)), '0');
      if (digits.empty()) digits = "0";
      const int at = below(static_cast<int>(digits.size()) + 1);
      std::string spelled = plain.sign < 0 ? "-" : "";
      spelled += digits.substr(0, static_cast<std::size_t>(at)) + "." + digits.substr(static_cast<std::size_t>(at));
      if (const int exponent = plain.point + zeros - at; exponent != 0) {
        spelled += (below(2) == 0 ? "e" : "E") + std::to_string(exponent);
      }
      const auto key = made(Kind::number, spelled);
      ASSERT_TRUE(key) << spelled;
      all.push_back({plain, spelled, *key});
    }
  }
  for (const One& a : all) {
    for (const One& b : all) {
      ASSERT_EQ(compare(a.plain, b.plain), a.key <=> b.key) << a.spelled << " and " << b.spelled;
    }
  }
}

TEST(ResidentValue, IntegersUpToTheirLimits) {
  expect_order(Kind::integer, {{"-9223372036854775808"},
                               {"-9223372036854775807"},
                               {"-10"},
                               {"-1"},
                               {"0", "-0", "00"},
                               {"1", "01"},
                               {"2"},
                               {"10"},
                               {"9223372036854775807"}});
  expect_refused(Kind::integer,
                 {"", "-", "9223372036854775808", "-9223372036854775809", "1.0", "1e3", " 1", "1 ", "a", "true"});
}

TEST(ResidentValue, Booleans) {
  expect_order(Kind::boolean, {{"f", "false", "0"}, {"t", "true", "1"}});
  expect_refused(Kind::boolean, {"", "yes", "no", "TRUE", "2", "tr", "t "});
}

TEST(ResidentValue, DatesThroughAllOfHistory) {
  expect_order(Kind::date, {{"-infinity"},     {"4713-01-01 BC"}, {"0044-03-15 BC"}, {"0001-12-31 BC", "0000-12-31"},
                            {"0001-01-01"},    {"1582-10-10"},    {"1899-12-31"},    {"1900-02-28"},
                            {"1900-03-01"},    {"1969-12-31"},    {"1970-01-01"},    {"1999-12-31"},
                            {"2000-02-28"},    {"2000-02-29"},    {"2000-03-01"},    {"2024-02-29"},
                            {"2026-11-22"},    {"9999-12-31"},    {"10000-01-01"},   {"294276-12-31"},
                            {"5874897-12-31"}, {"infinity"}});
  expect_refused(Kind::date, {"",
                              "2026",
                              "2026-11",
                              "2026-11-",
                              "2026-1-02",
                              "2026-00-10",
                              "2026-13-10",
                              "2026-10-00",
                              "2026-04-31",
                              "2026-02-29",
                              "1900-02-29",
                              "2026-11-22 ",
                              " 2026-11-22",
                              "2026-11-22T00:00:00",
                              "22.11.2026",
                              "26-11-22",
                              "-2026-11-22",
                              "0000-01-01 BC",
                              "99999999-01-01",
                              "2026/11/22",
                              "Infinity",
                              "BC",
                              " BC"});
}

TEST(ResidentValue, EachDayIsOneMoreThanTheDayBefore) {
  static constexpr int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  std::optional<std::uint64_t> before;
  for (int year = 1895; year < 2105; ++year) {
    for (int month = 1; month <= 12; ++month) {
      const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
      for (int day = 1; day <= lengths[month - 1] + (month == 2 && leap ? 1 : 0); ++day) {
        char text[32];
        std::snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
        const auto key = made(Kind::date, text);
        ASSERT_TRUE(key) << text;
        if (before) ASSERT_EQ(key->number, *before + 1) << text;
        before = key->number;
      }
    }
  }
}

TEST(ResidentValue, Timestamps) {
  expect_order(Kind::timestamp, {{"-infinity"},
                                 {"4714-11-24 00:00:00 BC"},
                                 {"0044-03-15 12:00:00 BC", "0044-03-15T12:00 BC"},
                                 {"1969-12-31 23:59:59.999999"},
                                 {"1970-01-01 00:00:00", "1970-01-01", "1970-01-01T00:00", "1970-01-01t00:00:00.000"},
                                 {"1970-01-01 00:00:00.000001"},
                                 {"1970-01-01 00:00:00.1", "1970-01-01T00:00:00.100000", "1970-01-01T00:00:00.1000009"},
                                 {"2026-11-22 18:30:00"},
                                 {"2026-11-22 18:30:00.5", "2026-11-22T18:30:00.50"},
                                 {"2026-11-22 23:59:59"},
                                 {"2026-11-22 23:59:60", "2026-11-23", "2026-11-22 24:00:00"},
                                 {"294276-12-31 23:59:59.999999"},
                                 {"infinity"}});
  expect_refused(Kind::timestamp, {"", "2026-11-22 ", "2026-11-22T", "2026-11-22 18", "2026-11-22 18:3",
                                   "2026-11-22 18:30:", "2026-11-22 18:30:0", "2026-11-22 18:30:00.",
                                   "2026-11-22 25:00:00", "2026-11-22 24:00:01", "2026-11-22 24:30",
                                   "2026-11-22 18:60:00", "2026-11-22 18:30:61", "2026-11-22_18:30:00",
                                   "2026-11-22 18:30:00Z", "2026-11-22 18:30:00+00", "2026-02-30 00:00:00", "18:30:00",
                                   // A time that exceeds 64 bits of microseconds is not a timestamp.
                                   "294277-12-31 00:00:00", "999999-01-01", "5874897-12-31", "9999999-12-31 23:59:60",
                                   "999999-01-01 BC", "9999999-12-31 00:00:00 BC"});
}

TEST(ResidentValue, TimestampsOfAllZones) {
  expect_order(Kind::timestamp_tz,
               {{"2026-11-22 17:30:00+00"},
                {"2026-11-22 18:29:59.999999+00"},
                {"2026-11-22 18:30:00+00", "2026-11-22T18:30:00Z", "2026-11-22T18:30Z", "2026-11-22 18:30:00z",
                 "2026-11-22T19:30:00+01:00", "2026-11-22 19:30:00+01", "2026-11-22T19:30:00+0100",
                 "2026-11-22T19:30:00 01:00", "2026-11-22T13:00:00-05:30", "2026-11-22T13:00:00-0530",
                 "2026-11-23 00:23:28+05:53:28", "2026-11-22 18:30:00", "2026-11-23T12:30:00+18"},
                {"2026-11-22 18:30:00-00:01"},
                {"2026-11-23", "2026-11-22 24:00:00Z"}});
  expect_refused(Kind::timestamp_tz, {"2026-11-22T18:30:00+", "2026-11-22T18:30:00+1", "2026-11-22T18:30:00+01:",
                                      "2026-11-22T18:30:00+01:0", "2026-11-22T18:30:00+19", "2026-11-22T18:30:00+01:60",
                                      "2026-11-22T18:30:00ZZ", "2026-11-22T18:30:00Z ", "2026-11-22T18:30:00 UTC",
                                      "2026-11-22T18:30:00+01:00:00:00", "294277-01-09 04:00:54.775808+00"});
  expect_order(Kind::timestamp_tz,
               {{"0044-03-15 11:00:00+00 BC", "0044-03-15 12:00:00+01 BC"}, {"0044-03-15 12:00:00+00 BC"}});
}

TEST(ResidentValue, Uuids) {
  expect_order(Kind::uuid, {{"00000000-0000-0000-0000-000000000000", "{00000000000000000000000000000000}"},
                            {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
                             "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc999c0b4ef8bb6d6bb9bd380a11",
                             "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", "{A0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}"},
                            {"ffffffff-ffff-ffff-ffff-ffffffffffff"}});
  expect_refused(Kind::uuid,
                 {"", "{}", "{", "}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
                  "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                  "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
                  "-a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11",
                  "a-0eebc999c0b4ef8bb6d6bb9bd380a11", " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"});
}

TEST(ResidentValue, TextsAreTheirBytes) {
  expect_order(Kind::text, {{""}, {"A"}, {"B"}, {"a"}, {"a "}, {"a1"}, {"b"}, {"\xc3\xa4"}, {"\xf0\x9f\x98\x80"}});
}

// ---- SQLite: each value has its own type ----

Made made(const ValueType& type, const TestValue& value) {
  const sql::Field field{
      .data = value.text->data(), .size = static_cast<std::uint32_t>(value.text->size()), .form = value.form};
  std::string scratch;
  Key key;
  EXPECT_TRUE(make_key(type, field, scratch, key)) << *value.text;
  return {false, 0, std::string(key.bytes)};
}

TEST(ResidentValue, DynamicValuesAreInTheOrderOfTheirClasses) {
  const ValueType type{.kind = Kind::dynamic};
  const std::vector<TestValue> ascending = {{"-Infinity", sql::Form::number},
                                            {"-5", sql::Form::number},
                                            {"0.5", sql::Form::number},
                                            {"1", sql::Form::number},
                                            {"10", sql::Form::number},
                                            {"Infinity", sql::Form::number},
                                            {"", sql::Form::text},
                                            {"10", sql::Form::text},
                                            {"9", sql::Form::text},
                                            {"a", sql::Form::text},
                                            {"", sql::Form::bytes},
                                            {std::string("\0", 1), sql::Form::bytes},
                                            {"a", sql::Form::bytes}};
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    EXPECT_LT(made(type, ascending[i - 1]), made(type, ascending[i])) << i;
  }
  EXPECT_EQ(made(type, {"1", sql::Form::number}), made(type, {"1.0", sql::Form::number}));
  EXPECT_EQ(made(type, {"t", sql::Form::boolean}), made(type, {"1", sql::Form::number}));
  EXPECT_EQ(made(type, {"f", sql::Form::boolean}), made(type, {"0.0", sql::Form::number}));
}

std::optional<Made> asked(const ValueType& type, std::string_view text) {
  std::string scratch;
  Key key;
  if (!make_asked_key(type, text, scratch, key)) return std::nullopt;
  return Made{false, is_fixed(type.kind) ? key.number : 0, std::string(key.bytes)};
}

TEST(ResidentValue, ClientsAskForDynamicValuesByWhatTheyLookLike) {
  const ValueType any{.kind = Kind::dynamic};
  EXPECT_EQ(asked(any, "1.50"), made(any, {"1.5", sql::Form::number}));
  EXPECT_EQ(asked(any, "one"), made(any, {"one", sql::Form::text}));
  EXPECT_EQ(asked(any, "true"), made(any, {"true", sql::Form::text}));
  const ValueType numeric = *ValueType::of(sqlite_column("n", "INTEGER"));
  EXPECT_EQ(asked(numeric, "1e0"), made(numeric, {"1", sql::Form::number}));
  EXPECT_EQ(asked(numeric, "one"), std::nullopt);
  const ValueType boolean = *ValueType::of(sqlite_column("b", "Boolean"));
  EXPECT_EQ(asked(boolean, "true"), made(boolean, {"t", sql::Form::boolean}));
  EXPECT_EQ(asked(boolean, "false"), made(boolean, {"f", sql::Form::boolean}));
  EXPECT_EQ(asked(boolean, "T"), made(boolean, {"1", sql::Form::number}));
  EXPECT_EQ(asked(boolean, "f"), made(boolean, {"0", sql::Form::number}));
  for (const char* none : {"2", "0.0", "banana", "ne.true", ""}) EXPECT_EQ(asked(boolean, none), std::nullopt) << none;
}

TEST(ResidentValue, BlanksAtTheEndOfCharCountForNothing) {
  const ValueType padded = *ValueType::of(column_of("c", sql::Form::text, 1042));
  EXPECT_EQ(padded.spelling, ValueType::Spelling::padded);
  EXPECT_EQ(asked(padded, "ab"), made(padded, "ab   "));
  EXPECT_EQ(asked(padded, "ab "), made(padded, "ab"));
  EXPECT_EQ(asked(padded, ""), made(padded, "   "));
  EXPECT_NE(asked(padded, " ab"), made(padded, "ab"));
}

// ---- Types ----

TEST(ResidentValue, WhatPostgresColumnsHold) {
  const auto kind = [](sql::Form form, std::uint32_t id) {
    const auto type = ValueType::of(column_of("c", form, id));
    EXPECT_TRUE(type);
    EXPECT_EQ(type->shape, ValueType::Shape::scalar);
    EXPECT_TRUE(type->is_single());
    EXPECT_EQ(type->spelling == ValueType::Spelling::padded, id == 1042);
    return type->kind;
  };
  for (const std::uint32_t id : {20U, 21U, 23U}) EXPECT_EQ(kind(sql::Form::number, id), Kind::integer);
  EXPECT_EQ(kind(sql::Form::text, 26), Kind::integer);    // oid
  EXPECT_EQ(kind(sql::Form::text, 5069), Kind::integer);  // xid8
  for (const std::uint32_t id : {700U, 701U, 1700U}) EXPECT_EQ(kind(sql::Form::number, id), Kind::number);
  EXPECT_EQ(kind(sql::Form::boolean, 16), Kind::boolean);
  EXPECT_EQ(kind(sql::Form::text, 1082), Kind::date);
  EXPECT_EQ(kind(sql::Form::timestamp, 1114), Kind::timestamp);
  EXPECT_EQ(kind(sql::Form::timestamp_tz, 1184), Kind::timestamp_tz);
  for (const std::uint32_t id : {25U, 1043U, 1042U, 99999U}) EXPECT_EQ(kind(sql::Form::text, id), Kind::text);
  EXPECT_EQ(kind(sql::Form::text, 2950), Kind::uuid);

  // Whether the key sorts as in PostgreSQL.
  const auto orders = [](sql::Form form, std::uint32_t id) {
    return ValueType::of(column_of("c", form, id))->orders();
  };
  for (const std::uint32_t id :
       {18U, 19U, 25U, 26U, 705U, 774U, 829U, 1042U, 1043U, 1082U, 1083U, 1560U, 1562U, 2950U}) {
    EXPECT_TRUE(orders(sql::Form::text, id)) << id;
  }
  EXPECT_TRUE(orders(sql::Form::number, 1700));
  EXPECT_TRUE(orders(sql::Form::boolean, 16));
  EXPECT_TRUE(orders(sql::Form::timestamp_tz, 1184));
  // money, inet, interval, timetz, pg_lsn, int4range, and types without a fixed OID: enums, citext.
  for (const std::uint32_t id : {790U, 869U, 1186U, 1266U, 3220U, 3904U, 16384U, 99999U}) {
    EXPECT_FALSE(orders(sql::Form::text, id)) << id;
  }

  EXPECT_FALSE(ValueType::of(column_of("c", sql::Form::composite)));
  EXPECT_FALSE(ValueType::of(column_of("c", sql::Form::bytes)));
  EXPECT_FALSE(ValueType::of({.name = "c", .type = nullptr}));
  const auto json = ValueType::of(column_of("c", sql::Form::json, 3802));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->shape, ValueType::Shape::json);
  EXPECT_EQ(json->kind, Kind::text);
  EXPECT_FALSE(json->orders());
}

TEST(ResidentValue, WhatArraysHold) {
  const auto integers = ValueType::of(array_of("c", sql::Form::number));
  ASSERT_TRUE(integers);
  EXPECT_EQ(integers->shape, ValueType::Shape::array);
  EXPECT_EQ(integers->kind, Kind::number);
  EXPECT_EQ(integers->delimiter, ',');
  EXPECT_FALSE(integers->orders());
  sql::Column uuids = array_of("c", sql::Form::text);
  uuids.type_id = 2951;
  EXPECT_EQ(ValueType::of(uuids)->kind, Kind::uuid);
  const auto boxes = ValueType::of(array_of("c", sql::Form::text, ';'));
  ASSERT_TRUE(boxes);
  EXPECT_EQ(boxes->kind, Kind::text);
  EXPECT_EQ(boxes->delimiter, ';');
  EXPECT_FALSE(ValueType::of(array_of("c", sql::Form::number, ' ')));  // int2vector has no braces
  EXPECT_FALSE(ValueType::of(array_of("c", sql::Form::json)));
  EXPECT_FALSE(ValueType::of(array_of("c", sql::Form::composite)));
  EXPECT_FALSE(ValueType::of(array_of("c", sql::Form::array)));
  EXPECT_FALSE(ValueType::of(column_of("c", sql::Form::array)));  // of an unknown element type
}

TEST(ResidentValue, WhatSqliteColumnsHold) {
  const auto type = [](std::string declared) { return *ValueType::of(sqlite_column("c", std::move(declared))); };
  for (const char* declared :
       {"INTEGER", "int", "BigInt", "REAL", "float", "DOUBLE PRECISION", "numeric(10,2)", "DECIMAL(5)", "NUMBER"}) {
    EXPECT_EQ(type(declared).kind, Kind::dynamic) << declared;
    EXPECT_EQ(type(declared).spelling, ValueType::Spelling::numeric) << declared;
    EXPECT_TRUE(type(declared).orders()) << declared;
  }
  for (const char* declared : {"TEXT", "text", "VARCHAR(20)", "CLOB", "Nchar(5)"}) {
    EXPECT_EQ(type(declared).kind, Kind::text) << declared;
    EXPECT_EQ(type(declared).shape, ValueType::Shape::scalar) << declared;
  }
  for (const char* declared : {"", "BLOB", "DATE", "DATETIME", "FLOATING POINT", "whatever"}) {
    EXPECT_EQ(type(declared).kind, Kind::dynamic) << declared;
    EXPECT_EQ(type(declared).spelling, ValueType::Spelling::plain) << declared;
  }
  for (const char* declared : {"BOOL", "boolean"}) {
    EXPECT_EQ(type(declared).kind, Kind::dynamic) << declared;
    EXPECT_EQ(type(declared).spelling, ValueType::Spelling::boolean) << declared;
  }
  for (const char* declared : {"JSON", "jsonb"}) {
    EXPECT_EQ(type(declared).shape, ValueType::Shape::json) << declared;
    EXPECT_FALSE(type(declared).orders()) << declared;
  }
}

}  // namespace
}  // namespace sluice::api::resident
