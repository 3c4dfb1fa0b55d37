#include "api/openapi/schema.h"

#include <gtest/gtest.h>

#include "sql/postgres/types.h"

namespace sluice::api::openapi {
namespace {

using Null = Schema::Null;

std::string text_of(const Schema& schema, Null null) { return Json(schema.json(null)).text(); }

// Returns an empty string if the text is not a valid default.
std::string default_of(const Schema& schema, std::string_view text) {
  const auto value = default_json(schema, text);
  return value ? value->text() : "";
}

std::string of_postgres(std::uint32_t oid) {
  sql::Column column;
  column.type_id = oid;
  column.type = sql::postgres::builtin_type(oid);
  return text_of(schema_of(column), Null::never);
}

std::string of_sqlite(std::string declared) {
  sql::Column column;
  column.type = std::make_shared<sql::Type>(sql::Type{.form = sql::Form::dynamic, .element = {}, .attributes = {}});
  column.declared_type = std::move(declared);
  return text_of(schema_of(column), Null::possible);
}

TEST(Schema, OfPostgresColumns) {
  EXPECT_EQ(of_postgres(16), R"({"type":"boolean"})");
  EXPECT_EQ(of_postgres(23), R"({"type":"integer","format":"int32","minimum":-2147483648,"maximum":2147483647})");
  EXPECT_EQ(of_postgres(25), R"({"type":"string"})");
  EXPECT_EQ(of_postgres(2950), R"({"type":"string","format":"uuid"})");
  EXPECT_EQ(of_postgres(1082), R"({"type":"string","format":"date"})");
  EXPECT_EQ(of_postgres(1184), R"({"type":"string","format":"date-time"})");
  EXPECT_EQ(of_postgres(1114), R"({"type":"string"})") << "RFC 3339 wants a zone";
  EXPECT_EQ(of_postgres(3802), "{}");
  EXPECT_EQ(of_postgres(1700), R"({"type":"number"})");
  EXPECT_EQ(of_postgres(701), R"({"type":["number","string"],"pattern":"^(NaN|-?Infinity)$"})");
  EXPECT_EQ(of_postgres(1009), R"({"type":"array","items":{"anyOf":[{"type":["string","null"]},{"type":"array"}]}})");
}

TEST(Schema, OfAnEnum) {
  const Schema mood = schema_of(sql::EnumType{.oid = 1, .array = 2, .name = "mood", .labels = {"sad", "a\"b"}});
  EXPECT_EQ(text_of(mood, Null::never), R"({"type":"string","enum":["sad","a\"b"]})");
  EXPECT_EQ(text_of(mood, Null::possible), R"({"type":["string","null"],"enum":["sad","a\"b",null]})");
  EXPECT_EQ(text_of(array_of(mood), Null::never), R"({"type":"array","items":{"anyOf":[{"type":["string","null"],)"
                                                  R"("enum":["sad","a\"b",null]},{"type":"array"}]}})");
}

TEST(Schema, OfAllowedValues) {
  using enum sql::ParameterType;
  const AllowedValues words{.values = {"b", "a"}, .min = {}, .max = {}, .reason = {}};
  EXPECT_EQ(text_of(schema_of(text, &words), Null::never), R"({"type":"string","enum":["b","a"]})");
  EXPECT_EQ(text_of(limited(with_length(schema_of(text), "varchar(3)"), &words), Null::possible),
            R"({"type":["string","null"],"enum":["b","a",null]})");
  EXPECT_EQ(text_of(limited({}, &words), Null::never), R"({"type":"string","enum":["b","a"]})");
  EXPECT_EQ(text_of(schema_of(texts, &words), Null::never),
            R"({"type":"array","items":{"type":"string","enum":["b","a"]}})");
  const AllowedValues numbers{.values = {"1", "2.50"}, .min = {}, .max = {}, .reason = {}};
  EXPECT_EQ(text_of(schema_of(real, &numbers), Null::never), R"({"type":"number","enum":[1,2.5]})");

  const AllowedValues bounds{.values = {}, .min = parse_decimal("0.5"), .max = {}, .reason = {}};
  EXPECT_EQ(text_of(schema_of(integer, &bounds), Null::never),
            R"({"type":"integer","format":"int64","maximum":9223372036854775807,"minimum":0.5})");
  EXPECT_EQ(text_of(limited(schema_of_oid(701), &bounds), Null::possible),
            R"({"type":["number","null"],"minimum":0.5})")
      << "NaN is not allowed";
  EXPECT_EQ(text_of(limited({}, &bounds), Null::never), R"({"type":"number","minimum":0.5})");
}

TEST(Schema, OfArraysOfPostgres) {
  EXPECT_EQ(of_postgres(1007), R"({"type":"array","items":{"anyOf":[{"type":["integer","null"],"format":"int32",)"
                               R"("minimum":-2147483648,"maximum":2147483647},{"type":"array"}]}})");
}

TEST(Schema, OfACompositeType) {
  sql::Column column;
  auto type = std::make_shared<sql::Type>(sql::Type{.form = sql::Form::composite, .element = {}, .attributes = {}});
  type->attributes.push_back({"a\"b", sql::postgres::builtin_type(25)});
  column.type = type;
  EXPECT_EQ(text_of(schema_of(column), Null::possible),
            R"({"type":["object","null"],"properties":{"a\"b":{"type":["string","null"]}}})");
}

TEST(Schema, OfWhatSqliteDeclares) {
  EXPECT_EQ(of_sqlite(""), "{}");
  EXPECT_EQ(of_sqlite("VARCHAR(20)"), R"({"type":["string","null"]})");
  EXPECT_EQ(of_sqlite("Real"), R"({"type":["number","string","null"],"pattern":"^(NaN|-?Infinity)$"})");
  EXPECT_EQ(of_sqlite("DECIMAL(10,2)"), R"({"type":["number","null"]})");
  EXPECT_EQ(of_sqlite("BOOLEAN"), R"({"type":["boolean","null"]})");
  EXPECT_EQ(of_sqlite("json"), "{}");
  EXPECT_TRUE(of_sqlite("INTEGER").starts_with(R"({"type":["integer","null"],"format":"int64")"));
}

TEST(Schema, OfTypesByTheirNames) {
  const auto of = [](std::string_view name, sql::Dialect dialect = sql::Dialect::postgres) {
    return text_of(schema_of_type_name(name, dialect), Null::never);
  };
  EXPECT_EQ(of("timestamp(3) with time zone"), R"({"type":"string","format":"date-time"})");
  EXPECT_EQ(of("character varying(20)"), R"({"type":"string","maxLength":20})");
  EXPECT_EQ(of("character(3)"), R"({"type":"string","maxLength":3})");
  EXPECT_EQ(of("character varying"), R"({"type":"string"})");
  EXPECT_EQ(of("varchar(20)", sql::Dialect::sqlite), R"({"type":"string"})") << "SQLite stores longer texts";
  EXPECT_EQ(of("text[]"), "{}");
  EXPECT_EQ(of("mood"), "{}");
  EXPECT_EQ(of("varchar("), R"({"type":"string"})");
  EXPECT_EQ(of("numeric(10,2)"), R"({"type":"number"})");
  // Only PostgreSQL stores NaN, and its "integer" has 32 bits.
  EXPECT_EQ(of("double precision"), R"({"type":["number","string"],"pattern":"^(NaN|-?Infinity)$"})");
  EXPECT_EQ(of("double precision", sql::Dialect::sqlite), R"({"type":"number"})");
  EXPECT_TRUE(of("integer").contains("int32"));
  EXPECT_TRUE(of("INTEGER", sql::Dialect::sqlite).contains("int64"));
}

TEST(Schema, Defaults) {
  const Schema integer = schema_of(sql::ParameterType::integer);
  const Schema real = schema_of(sql::ParameterType::real);
  const Schema boolean = schema_of(sql::ParameterType::boolean);
  const Schema text = schema_of(sql::ParameterType::text);
  EXPECT_EQ(default_of(integer, "20"), "20");
  EXPECT_EQ(default_of(integer, "-1"), "-1");
  for (const char* no_number : {"", "-", "007", "+1", ".5", "1.", "1e", "1e+", "NaN", "0x1"}) {
    EXPECT_EQ(default_of(real, no_number), "") << no_number;
  }
  EXPECT_EQ(default_of(real, "1.5e-3"), "1.5e-3");
  EXPECT_EQ(default_of(boolean, "1"), "true");
  EXPECT_EQ(default_of(boolean, "f"), "false");
  EXPECT_EQ(default_of(boolean, "maybe"), "");
  EXPECT_EQ(default_of(text, "a\"b"), R"("a\"b")");
}

TEST(Schema, APassword) {
  EXPECT_EQ(Json(schema_of(PasswordRules{.min_length = 12}).json(Schema::Null::never)).text(),
            R"({"type":"string","format":"password","writeOnly":true,"minLength":12,"maxLength":1024})");
}

}  // namespace
}  // namespace sluice::api::openapi
