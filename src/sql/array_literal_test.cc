#include "sql/array_literal.h"

#include <gtest/gtest.h>

namespace sluice::sql {
namespace {

constexpr ArrayForm plain{};
constexpr ArrayForm of_json{.delimiter = ',', .of_json = true};

TEST(ArrayLiteral, IsWhatPostgresReads) {
  EXPECT_EQ(array_literal("[]", plain), "{}");
  EXPECT_EQ(array_literal(R"([1, -2.50 ,1e3,true,null])", plain), R"({"1","-2.50","1e3","true",NULL})");
  EXPECT_EQ(array_literal(R"(["a","","NULL","a b","{,}","\"\\","\u00e9\n"])", plain),
            "{\"a\",\"\",\"NULL\",\"a b\",\"{,}\",\"\\\"\\\\\",\"é\n\"}");
  EXPECT_EQ(array_literal("[[1,2],[null,4]]", plain), R"({{"1","2"},{NULL,"4"}})");
  EXPECT_EQ(array_literal("[[],[]]", plain), "{{},{}}");
  const ArrayForm of_boxes{.delimiter = ';'};
  EXPECT_EQ(array_literal(R"x(["(1,1),(0,0)",null])x", of_boxes), R"x({"(1,1),(0,0)";NULL})x");
  // No element of a composite type's form is made; the server refuses what it cannot read.
  EXPECT_EQ(array_literal(R"([{"a":1}])", plain), R"({"{\"a\":1}"})");
}

TEST(ArrayLiteral, OfJsonHoldsItsText) {
  EXPECT_EQ(array_literal(R"([{"a": "\"x"},[1,2],"b",3,false,null])", of_json),
            R"({"{\"a\": \"\\\"x\"}","[1,2]","\"b\"","3","false",NULL})");
}

TEST(ArrayLiteral, OfNothingElse) {
  for (const char* const text : {"{}", "1", "null", "\"[]\"", "{\"a\":[1]}"}) {
    EXPECT_FALSE(array_literal(text, plain)) << text;
  }
}

TEST(ArrayForm, OfTypes) {
  ASSERT_TRUE(array_form(1009));  // text[]
  EXPECT_FALSE(array_form(1009)->of_json);
  EXPECT_TRUE(array_form(3807)->of_json);       // jsonb[]
  EXPECT_EQ(array_form(1020)->delimiter, ';');  // box[]
  for (const std::uint32_t oid : {25U, 3802U, 22U, 30U, 0U, 99999U}) EXPECT_FALSE(array_form(oid)) << oid;
}

}  // namespace
}  // namespace sluice::sql
