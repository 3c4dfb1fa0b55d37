#include "sql/sqlite/value.h"

#include <array>
#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "base/utf8.h"
#include "sql/sqlite/test_support.h"

namespace sluice::sql::sqlite {
namespace {

using testing::Rows;
using testing::texts;

class ValueTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(sqlite3_open(":memory:", &database_), SQLITE_OK); }
  void TearDown() override {
    sqlite3_finalize(statement_);
    sqlite3_close(database_);
  }
  void prepare(std::string_view sql) {
    sqlite3_finalize(statement_);
    ASSERT_EQ(sqlite3_prepare_v2(database_, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr), SQLITE_OK)
        << sqlite3_errmsg(database_);
    declared_.clear();
    for (int i = 0; i < sqlite3_column_count(statement_); ++i) {
      const char* const type = sqlite3_column_decltype(statement_, i);
      declared_.push_back(sqlite_column_kind(type == nullptr ? "" : type));
    }
  }
  std::vector<std::string> row() {
    RowBlock block;
    EXPECT_EQ(sqlite3_step(statement_), SQLITE_ROW) << sqlite3_errmsg(database_);
    append_row(block, statement_, declared_);
    Rows rows;
    const std::vector<Column> columns(declared_.size());
    testing::add_rows(rows, block.view(columns, true));
    return rows.at(0);
  }
  std::string value(const std::string& expression) {
    prepare("SELECT " + expression);
    return row().at(0);
  }

  sqlite3* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
  std::vector<ColumnKind> declared_;
};

TEST_F(ValueTest, Numbers) {
  EXPECT_EQ(value("0"), "0");
  EXPECT_EQ(value("-7"), "-7");
  EXPECT_EQ(value("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(value("-9223372036854775807 - 1"), "-9223372036854775808");
  EXPECT_EQ(value("1.0"), "1.0");
  EXPECT_EQ(value("-0.0"), "-0.0");
  EXPECT_EQ(value("0.1"), "0.1");
  EXPECT_EQ(value("1e22"), "1e+22");
  EXPECT_EQ(value("123456.0"), "123456.0");
  EXPECT_EQ(value("0.1 + 0.2"), "0.30000000000000004");
  EXPECT_EQ(value("1e999"), "Infinity");
  EXPECT_EQ(value("-1e999"), "-Infinity");
  EXPECT_EQ(value("1e999 - 1e999"), "null");
}

TEST_F(ValueTest, TextsAndBytes) {
  EXPECT_EQ(value("NULL"), "null");
  EXPECT_EQ(value("''"), "''");
  EXPECT_EQ(value("'abc'"), "'abc'");
  EXPECT_EQ(value("'\xC3\xA9\xF0\x9F\x8E\xAC'"), "'\xC3\xA9\xF0\x9F\x8E\xAC'");
  EXPECT_EQ(value("x''"), "bytes ");
  EXPECT_EQ(value("x'00ff41'"), std::string("bytes \0\xFF"
                                            "A",
                                            9));
  EXPECT_EQ(value("CAST(x'410042' AS TEXT)"), std::string("'A\0B'", 5));
}

TEST_F(ValueTest, RepairsBrokenText) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(value("CAST(x'ff' AS TEXT)"), "'" + r + "'");
  EXPECT_EQ(value("CAST(x'41ff42' AS TEXT)"), "'A" + r + "B'");
  EXPECT_EQ(value("CAST(x'c3' AS TEXT)"), "'" + r + "'");
  EXPECT_EQ(value("CAST(x'c328' AS TEXT)"), "'" + r + "('");
  EXPECT_EQ(value("CAST(x'e282' AS TEXT)"), "'" + r + "'");
  EXPECT_EQ(value("CAST(x'f09f8e41' AS TEXT)"), "'" + r + "A'");
  EXPECT_EQ(value("CAST(x'c080' AS TEXT)"), "'" + r + r + "'");        // overlong
  EXPECT_EQ(value("CAST(x'eda080' AS TEXT)"), "'" + r + r + r + "'");  // a surrogate
  EXPECT_EQ(value("CAST(x'f4908080' AS TEXT)"), "'" + r + r + r + r + "'");
  EXPECT_EQ(value("CAST(x'80' AS TEXT) || '\xC3\xA9'"), "'" + r + "\xC3\xA9'");
}

TEST_F(ValueTest, RepairAlwaysGivesValidText) {
  std::uint32_t state = 12345;
  for (int i = 0; i < 5'000; ++i) {
    std::string hex;
    for (int n = 0; n < 1 + i % 90; ++n) {
      state = state * 1664525 + 1013904223;
      static constexpr std::string_view bytes[] = {"41", "c3", "a9", "e2", "82", "ac",
                                                   "f0", "9f", "ff", "ed", "80", "f4"};
      hex += bytes[(state >> 16) % 12];
    }
    const std::string shown = value("CAST(x'" + hex + "' AS TEXT)");
    ASSERT_TRUE(is_utf8(shown)) << hex;
  }
}

TEST_F(ValueTest, DeclaredTypes) {
  ASSERT_EQ(
      sqlite3_exec(database_,
                   "CREATE TABLE t(j JSON, jb jsonb, b BOOLEAN, b2 bool, n);"
                   "INSERT INTO t VALUES('{\"a\":1}', '[1]', 1, 0, 1), ('{a', 'x', 2, 'yes', '{}'),"
                   "(5, x'41', NULL, 1.5, 0), ('', NULL, 0, 1, 'true'), (CAST(x'22ff22' AS TEXT), 2.0, '1', -1, NULL)",
                   nullptr, nullptr, nullptr),
      SQLITE_OK);
  prepare("SELECT * FROM t ORDER BY rowid");
  using Row = std::vector<std::string>;
  EXPECT_EQ(row(), (Row{"json {\"a\":1}", "json [1]", "true", "false", "1"}));
  EXPECT_EQ(row(), (Row{"'{a'", "'x'", "2", "'yes'", "'{}'"}));
  EXPECT_EQ(row(), (Row{"5", "bytes A", "null", "1.5", "0"}));
  EXPECT_EQ(row(), (Row{"''", "null", "false", "true", "'true'"}));
  // BOOLEAN has numeric affinity: the text '1' was stored as an integer.
  EXPECT_EQ(row(), (Row{"'\"\xEF\xBF\xBD\"'", "2", "true", "-1", "null"}));
}

TEST_F(ValueTest, FieldsFollowAGrowingBlock) {
  prepare("SELECT 'first', 17, zeroblob(300000), 'last', NULL, ''");
  const auto values = row();
  EXPECT_EQ(values[0], "'first'");
  EXPECT_EQ(values[1], "17");
  EXPECT_EQ(values[2].size(), 300'006u);
  EXPECT_EQ(values[3], "'last'");
  EXPECT_EQ(values[4], "null");
  EXPECT_EQ(values[5], "''");
}

TEST_F(ValueTest, Binds) {
  prepare("SELECT ?1, ?2, ?3, ?4, ?5, typeof(?4), ?6");
  const Argument arguments[] = {{"42", ParameterType::integer},
                                {"1.5", ParameterType::real},
                                {"true", ParameterType::boolean},
                                {"42", ParameterType::text},
                                {std::nullopt},
                                {std::string_view(), ParameterType::text}};
  ASSERT_TRUE(bind(statement_, arguments));
  EXPECT_EQ(row(), (std::vector<std::string>{"42", "1.5", "1", "'42'", "null", "'text'", "''"}));
}

TEST_F(ValueTest, BindsWhatAnswersShowOfOtherValues) {
  prepare("SELECT ?1, ?2, ?3, hex(?3), typeof(?4), hex(?4)");
  const Argument arguments[] = {{"Infinity", ParameterType::real},
                                {"-Infinity", ParameterType::real},
                                {"\\x00fF41", ParameterType::bytes},
                                {"\\x", ParameterType::bytes}};
  ASSERT_TRUE(bind(statement_, arguments));
  EXPECT_EQ(row(), (std::vector<std::string>{"Infinity", "-Infinity",
                                             std::string("bytes \0\xFF"
                                                         "A",
                                                         9),
                                             "'00FF41'", "'blob'", "''"}));
}

TEST_F(ValueTest, WholeNumbersOfReturningAreThoseOfSelect) {
  ASSERT_EQ(sqlite3_exec(database_, "CREATE TABLE r(a REAL, b DOUBLE PRECISION, c NUMERIC, d INTEGER)", nullptr,
                         nullptr, nullptr),
            SQLITE_OK);
  // RETURNING gives 5 where SELECT gives 5.0, or 5.0 where SELECT gives 5.
  for (const char* statement : {"INSERT INTO r VALUES (5, -3, 5, 7) RETURNING *", "SELECT * FROM r",
                                "UPDATE r SET a = 5, b = -3, c = 5, d = 7 RETURNING *"}) {
    prepare(statement);
    EXPECT_EQ(row(), (std::vector<std::string>{"5.0", "-3.0", "5", "7"})) << statement;
  }
}

TEST_F(ValueTest, RefusesArguments) {
  prepare("SELECT ?1");
  const std::pair<const char*, ParameterType> wrong[] = {
      {"", ParameterType::integer},
      {"x", ParameterType::integer},
      {"1x", ParameterType::integer},
      {" 1", ParameterType::integer},
      {"+1", ParameterType::integer},
      {"1.0", ParameterType::integer},
      {"9223372036854775808", ParameterType::integer},
      {"", ParameterType::real},
      {"1,5", ParameterType::real},
      {"nan", ParameterType::real},
      {"inf", ParameterType::real},
      {"1e999", ParameterType::real},
      {"yes", ParameterType::boolean},
      {"TRUE", ParameterType::boolean},
      {"2", ParameterType::boolean},
      {"\xFF", ParameterType::text},
      {"", ParameterType::bytes},
      {"41", ParameterType::bytes},
      {"\\x4", ParameterType::bytes},
      {"\\x4g", ParameterType::bytes},
  };
  const std::vector<Parameter> parameters{{"id", std::nullopt}};
  for (const auto& [text, type] : wrong) {
    const Argument argument{text, type};
    const auto bound = bind(statement_, {&argument, 1}, parameters);
    ASSERT_FALSE(bound) << text;
    EXPECT_EQ(bound.error().failure, Failure::bad_argument);
    EXPECT_TRUE(bound.error().message.starts_with(":id ")) << bound.error().message;
    EXPECT_EQ(bound.error().rule->parameter, 1u);
  }
  for (const char* text : {"t", "f", "0", "1", "false"}) {
    const Argument argument{text, ParameterType::boolean};
    EXPECT_TRUE(bind(statement_, {&argument, 1}, parameters)) << text;
  }
}

TEST(OwnedArguments, KeepTheirTexts) {
  std::string text = "abc";
  const Argument given[] = {
      {text}, {std::nullopt}, {"", ParameterType::integer}, {"long enough not to be in place", ParameterType::real}};
  OwnedArguments first(given);
  text = "xyz";
  const OwnedArguments owned = std::move(first);
  ASSERT_EQ(owned.list.size(), 4u);
  EXPECT_EQ(owned.list[0].text, "abc");
  EXPECT_FALSE(owned.list[1].text);
  EXPECT_EQ(owned.list[2].text, "");
  EXPECT_EQ(owned.list[2].type, ParameterType::integer);
  EXPECT_EQ(owned.list[3].text, "long enough not to be in place");
}

}  // namespace
}  // namespace sluice::sql::sqlite
