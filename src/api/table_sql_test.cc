#include "api/table_sql.h"

#include <gtest/gtest.h>

#include "sql/set/set.h"

namespace sluice::api {
namespace {

Named<ColumnOptions> column(std::string name, sql::ParameterType type) {
  Named<ColumnOptions> made;
  made.name.value = std::move(name);
  made.value.type = Located<sql::ParameterType>(type);
  return made;
}

TEST(TableSource, WhetherTheBodyHasAFieldIsNotCheckedAsTheFieldIs) {
  MethodOptions options;
  options.columns.push_back(column("score", sql::ParameterType::real));
  options.columns[0].value.trim = true;
  const auto pattern = *http::Pattern::parse("/films");
  const auto value = table_source(sql::shared_parameter("score"), options, pattern);
  ASSERT_TRUE(value);
  EXPECT_TRUE(value->checked && value->trim);
  EXPECT_FALSE(value->asks_presence);
  const auto presence = table_source(presence_parameter("score"), options, pattern);
  ASSERT_TRUE(presence);
  EXPECT_TRUE(presence->asks_presence);
  EXPECT_FALSE(presence->checked || presence->trim || presence->required);
  EXPECT_FALSE(table_source("score", options, pattern)) << "a parameter of the configuration's own";

  Binder binder;
  std::vector<sql::Argument> bound;
  const http::Request request;
  const Value number{Value::Kind::number, "1.5"};
  ASSERT_TRUE(binder.bind({&*presence, 1}, request, {&number, 1}, bound));
  EXPECT_EQ(bound[0].text, "true");
}

}  // namespace
}  // namespace sluice::api
