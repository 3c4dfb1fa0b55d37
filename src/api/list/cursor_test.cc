#include "api/list/cursor.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::api::list {
namespace {

using sql::Dialect;
using sql::ParameterType;

const std::vector<CursorValue> values = {{.text = "a\"b;"},
                                         {.text = std::nullopt},
                                         {.text = "-7", .type = ParameterType::integer},
                                         {.text = "1.5e300", .type = ParameterType::real},
                                         {.text = "\\x00ff", .type = ParameterType::bytes},
                                         {.text = "t", .type = ParameterType::boolean},
                                         {.text = std::string(300, 'x')}};

TEST(Cursor, BothWays) {
  const std::string text = write_cursor(42, values);
  const auto read = read_cursor(text, 42, values.size(), Dialect::sqlite);
  ASSERT_TRUE(read);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ((*read)[i].text, values[i].text);
    EXPECT_EQ((*read)[i].type, values[i].type);
  }
}

TEST(Cursor, RefusesWhatIsNotOfTheList) {
  const std::string text = write_cursor(42, values);
  EXPECT_FALSE(read_cursor(text, 43, values.size(), Dialect::sqlite));
  EXPECT_FALSE(read_cursor(text, 42, values.size() - 1, Dialect::sqlite));
  EXPECT_FALSE(read_cursor(text, 42, values.size() + 1, Dialect::sqlite));
  // PostgreSQL's values are texts.
  EXPECT_FALSE(read_cursor(text, 42, values.size(), Dialect::postgres));
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(read_cursor(text.substr(0, size), 42, values.size(), Dialect::sqlite)) << size;
  }
  for (const CursorValue& wrong : {CursorValue{.text = "1; DROP", .type = ParameterType::integer},
                                   CursorValue{.text = "x", .type = ParameterType::real}, CursorValue{.text = "\xff"},
                                   CursorValue{.text = std::string("a\0b", 3)}}) {
    EXPECT_FALSE(read_cursor(write_cursor(1, {&wrong, 1}), 1, 1, Dialect::sqlite)) << *wrong.text;
  }
}

TEST(Cursor, KeepsTheTypesOfSqlite) {
  const auto type_of = [](std::string_view text, sql::Form form) {
    const sql::Field field{text.data(), static_cast<std::uint32_t>(text.size()), form};
    return cursor_value(field, Dialect::sqlite).type;
  };
  EXPECT_EQ(type_of("7", sql::Form::number), ParameterType::integer);
  EXPECT_EQ(type_of("7.0", sql::Form::number), ParameterType::real);
  EXPECT_EQ(type_of("-Infinity", sql::Form::number), ParameterType::real);
  EXPECT_EQ(type_of("7", sql::Form::text), ParameterType::text);
  EXPECT_EQ(type_of("t", sql::Form::boolean), ParameterType::boolean);
  EXPECT_EQ(cursor_value({"\x01\xff", 2, sql::Form::bytes}, Dialect::sqlite).text, "\\x01ff");
  EXPECT_FALSE(cursor_value({}, Dialect::sqlite).text);
}

}  // namespace
}  // namespace sluice::api::list
