#include "sql/json_literal.h"

#include <memory>

#include <gtest/gtest.h>

#include "sql/postgres/types.h"

namespace sluice::sql {
namespace {

const Type& texts() { return *postgres::builtin_type(1009); }
const Type& jsons() { return *postgres::builtin_type(3807); }

// (a int4, "b c" text, t text[], j jsonb, inner (x numeric))
Type composite() {
  Type inner{.form = Form::composite};
  inner.attributes.push_back({"x", postgres::builtin_type(1700)});
  Type type{.form = Form::composite};
  type.attributes = {{"a", postgres::builtin_type(23)},
                     {"b c", postgres::builtin_type(25)},
                     {"t", postgres::builtin_type(1009)},
                     {"j", postgres::builtin_type(3802)},
                     {"inner", std::make_shared<const Type>(inner)}};
  return type;
}

TEST(JsonLiteral, ArraysAreWhatPostgresReads) {
  EXPECT_EQ(json_literal("[]", texts()), "{}");
  EXPECT_EQ(json_literal(R"([1, -2.50 ,1e3,true,null])", texts()), R"({"1","-2.50","1e3","true",NULL})");
  EXPECT_EQ(json_literal(R"(["a","","NULL","a b","{,}","\"\\","\u00e9\n"])", texts()),
            "{\"a\",\"\",\"NULL\",\"a b\",\"{,}\",\"\\\"\\\\\",\"é\n\"}");
  EXPECT_EQ(json_literal("[[1,2],[null,4]]", texts()), R"({{"1","2"},{NULL,"4"}})");
  EXPECT_EQ(json_literal("[[],[]]", texts()), "{{},{}}");
  EXPECT_EQ(json_literal(R"x(["(1,1),(0,0)",null])x", *postgres::builtin_type(1020)), R"x({"(1,1),(0,0)";NULL})x");
  // A value of the wrong kind is passed on as text; the server refuses it.
  EXPECT_EQ(json_literal(R"([{"a":1}])", texts()), R"({"{\"a\":1}"})");
}

TEST(JsonLiteral, ArraysOfJsonHoldItsText) {
  EXPECT_EQ(json_literal(R"([{"a": "\"x"},[1,2],"b",3,false,null])", jsons()),
            R"({"{\"a\": \"\\\"x\"}","[1,2]","\"b\"","3","false",NULL})");
}

TEST(JsonLiteral, CompositesAreWhatPostgresReads) {
  const Type type = composite();
  EXPECT_EQ(json_literal("{}", type), "(,,,,)");
  EXPECT_EQ(json_literal(R"({"b c":"","a":12345678901234567890})", type), R"x(("12345678901234567890","",,,))x");
  EXPECT_EQ(json_literal(R"x({"a":null,"b c":"x\"\\,)","t":["a",null,"b\""],"j":"s","inner":{"x":1.50}})x", type),
            R"x((,"x\"\\,)","{\"a\",NULL,\"b\\\"\"}","\"s\"","(\"1.50\")"))x");
  Type array{.form = Form::array};
  array.element = std::make_shared<const Type>(type);
  EXPECT_EQ(json_literal(R"([{"a":1},null])", array), R"x({"(\"1\",,,,)",NULL})x");
}

TEST(JsonLiteral, OfNothingElse) {
  for (const char* const text : {"{}", "1", "null", "\"[]\"", "{\"a\":[1]}"}) {
    EXPECT_FALSE(json_literal(text, texts())) << text;
  }
  for (const char* const text : {"[]", "1", "\"(1)\"", "{\"nope\":1}"}) {
    EXPECT_FALSE(json_literal(text, composite())) << text;
  }
}

TEST(JsonLiteral, OfTypes) {
  EXPECT_TRUE(has_literal(texts()));
  EXPECT_TRUE(has_literal(composite()));
  for (const std::uint32_t oid : {25U, 3802U, 22U, 30U}) EXPECT_FALSE(has_literal(*postgres::builtin_type(oid))) << oid;
}

}  // namespace
}  // namespace sluice::sql
