#include "api/body/row_text.h"

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

using Kind = Value::Kind;

TEST(RowText, ValuesLieWhereTheirNamesSay) {
  const Shape shape{.names = {"a", "b.x", "b.y", "", "c\"", "b.x", "d.e.f"}, .allow_unknown = false};
  RowText text(shape);
  const Value missing;
  EXPECT_EQ(text.write(std::vector<Value>{{Kind::string, "1\"\n"},
                                          {Kind::number, "1.50"},
                                          {Kind::boolean, "true"},
                                          missing,
                                          {Kind::null, {}},
                                          {Kind::number, "1.50"},
                                          {Kind::json, "[1,{}]"}}),
            R"({"a":"1\"\n","b":{"x":1.50,"y":true},"c\"":null,"d":{"e":{"f":[1,{}]}}})");
  EXPECT_EQ(text.write(std::vector<Value>(7)), "{}");
  EXPECT_EQ(text.write(std::vector<Value>{missing, missing, {Kind::string, ""}, missing, missing, missing, missing}),
            R"({"b":{"y":""}})");
}

TEST(RowText, AnObjectThatIsNamedItselfGoesBeforeWhatLiesInIt) {
  const Shape shape{.names = {"a.b", "a"}, .allow_unknown = false};
  RowText text(shape);
  EXPECT_EQ(text.write(std::vector<Value>{{Kind::number, "1"}, {Kind::json, R"({"b":1,"c":2})"}}),
            R"({"a":{"b":1,"c":2}})");
  EXPECT_EQ(text.write(std::vector<Value>{{Kind::number, "1"}, {}}), R"({"a":{"b":1}})");
}

}  // namespace
}  // namespace sluice::api
