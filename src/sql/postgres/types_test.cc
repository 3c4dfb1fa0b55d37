#include "sql/postgres/types.h"

#include <array>

#include <gtest/gtest.h>

namespace sluice::sql::postgres {
namespace {

TEST(TypesTest, BuiltInTypesFollowToJson) {
  EXPECT_EQ(builtin_type(16)->form, Form::boolean);
  EXPECT_EQ(builtin_type(1700)->form, Form::number);
  EXPECT_EQ(builtin_type(26)->form, Form::text) << "to_json quotes an oid";
  for (const auto& [vector, array, element] : {std::array{22U, 1006U, 21U}, std::array{30U, 1013U, 26U}}) {
    EXPECT_EQ(builtin_type(vector)->form, Form::array) << "int2vector, oidvector";
    EXPECT_EQ(builtin_type(vector)->delimiter, ' ');
    EXPECT_EQ(builtin_type(vector)->element, builtin_type(element));
    EXPECT_EQ(builtin_type(array)->element, builtin_type(vector));
    EXPECT_EQ(builtin_type(array)->delimiter, ',');
  }
  EXPECT_EQ(builtin_type(3802)->form, Form::json);
  EXPECT_EQ(builtin_type(1114)->form, Form::timestamp);
  EXPECT_EQ(builtin_type(1184)->form, Form::timestamp_tz);
  EXPECT_EQ(builtin_type(1007)->form, Form::array);
  EXPECT_EQ(builtin_type(1007)->element, builtin_type(23));
  EXPECT_EQ(builtin_type(1020)->delimiter, ';');
  EXPECT_EQ(builtin_type(16384), nullptr);
  EXPECT_EQ(builtin_type(0), nullptr);
}

TEST(TypesTest, UnknownTypesAreAskedForUntilNothingIsMissing) {
  TypeCatalog catalog;
  EXPECT_EQ(catalog.find(23), builtin_type(23));
  EXPECT_TRUE(catalog.missing().empty());
  // 50: an array of the composite 51 (a int4, b 52); 52: a domain over 53, which is an enum.
  EXPECT_EQ(catalog.find(50), nullptr);
  ASSERT_EQ(catalog.missing().size(), 1u);
  catalog.add(std::vector<CatalogRow>{{50, 'b', 0, 51, ';', "", 0}});
  EXPECT_EQ(catalog.find(50), nullptr);
  ASSERT_EQ(catalog.missing().size(), 1u);
  EXPECT_EQ(catalog.missing()[0], 51u);
  catalog.add(std::vector<CatalogRow>{{51, 'c', 0, 0, ',', "a", 23}, {51, 'c', 0, 0, ',', "b", 52}});
  EXPECT_EQ(catalog.find(50), nullptr);
  catalog.add(std::vector<CatalogRow>{{52, 'd', 53, 0, ',', "", 0}});
  EXPECT_EQ(catalog.find(50), nullptr);
  ASSERT_EQ(catalog.missing().size(), 1u);
  EXPECT_EQ(catalog.missing()[0], 53u);
  catalog.add(std::vector<CatalogRow>{});  // the server does not know it, so it becomes text
  const TypePtr array = catalog.find(50);
  ASSERT_NE(array, nullptr);
  EXPECT_EQ(array->form, Form::array);
  EXPECT_EQ(array->delimiter, ';');
  ASSERT_EQ(array->element->attributes.size(), 2u);
  EXPECT_EQ(array->element->attributes[0].type, builtin_type(23));
  EXPECT_EQ(array->element->attributes[1].type->form, Form::text);
  EXPECT_EQ(catalog.find(50), array) << "made once";
}

TEST(TypesTest, SomeTypesHaveNoEmptyText) {
  for (const std::uint32_t oid : {23U, 1082U, 1184U, 1186U, 2950U, 869U, 600U, 3904U, 1009U}) {
    EXPECT_EQ(column_kind(builtin_type(oid)), ColumnKind::server_value) << oid;
  }
  for (const std::uint32_t oid : {25U, 1043U, 1042U, 17U, 18U, 1562U, 3614U}) {
    EXPECT_EQ(column_kind(builtin_type(oid)), ColumnKind::by_server) << oid;
  }
  EXPECT_EQ(column_kind(builtin_type(3802)), ColumnKind::server_json);
  TypeCatalog catalog;
  for (const std::uint32_t oid : {70U, 71U, 72U, 73U, 74U}) EXPECT_EQ(catalog.find(oid), nullptr);
  // An enum, a range, a domain over the enum, a composite, and a type of an extension.
  catalog.add(std::vector<CatalogRow>{{70, 'e', 0, 0, ',', "", 0},
                                      {71, 'r', 0, 0, ',', "", 0},
                                      {72, 'd', 70, 0, ',', "", 0},
                                      {73, 'c', 0, 0, ',', "a", 25},
                                      {74, 'b', 0, 0, ',', "", 0}});
  for (const std::uint32_t oid : {70U, 71U, 72U, 73U}) {
    EXPECT_EQ(column_kind(catalog.find(oid)), ColumnKind::server_value) << oid;
  }
  EXPECT_EQ(column_kind(catalog.find(74)), ColumnKind::by_server);
}

// A real server has no such types, but the search must end.
TEST(TypesTest, TypesThatContainThemselvesEnd) {
  TypeCatalog catalog;
  EXPECT_EQ(catalog.find(60), nullptr);
  catalog.add(std::vector<CatalogRow>{{60, 'd', 60, 0, ',', "", 0}});
  EXPECT_NE(catalog.find(60), nullptr);
}

TEST(TypesTest, CatalogRowsAreChecked) {
  const auto parse = [](std::vector<const char*> texts) {
    std::vector<Field> fields;
    for (const char* text : texts) {
      Field& field = fields.emplace_back();
      field.data = text;
      field.size = text == nullptr ? 0 : static_cast<std::uint32_t>(std::string_view(text).size());
    }
    return parse_catalog_row(fields);
  };
  const auto row = parse({"70", "c", "0", "0", ",", "name", "25"});
  ASSERT_TRUE(row);
  EXPECT_EQ(row->attribute, "name");
  EXPECT_EQ(row->attribute_type, 25u);
  EXPECT_TRUE(parse({"70", "b", "0", "71", ",", nullptr, nullptr}));
  EXPECT_FALSE(parse({"70", "b", "0", "71", ",", nullptr}));
  EXPECT_FALSE(parse({"x", "b", "0", "71", ",", nullptr, nullptr}));
  EXPECT_FALSE(parse({"70", "bb", "0", "71", ",", nullptr, nullptr}));
  EXPECT_FALSE(parse({nullptr, "b", "0", "71", ",", nullptr, nullptr}));
  EXPECT_FALSE(parse({"70", "b", "0", "71", "", nullptr, nullptr}));
  EXPECT_FALSE(parse({"70", "c", "0", "0", ",", "name", nullptr}));
  EXPECT_FALSE(parse({"4294967296", "b", "0", "71", ",", nullptr, nullptr}));
  EXPECT_NE(catalog_query(std::vector<std::uint32_t>{7, 8}).find("IN (7,8)"), std::string::npos);
}

}  // namespace
}  // namespace sluice::sql::postgres
