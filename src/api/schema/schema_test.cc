#include "api/schema/schema.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::api::schema {
namespace {

std::string fault_of(std::string_view json) {
  const auto parsed = Schema::parse(json);
  return parsed ? "" : parsed.error()[0].pointer + ": " + parsed.error()[0].reason;
}

// "pointer: reason" for each fault.
std::string check(std::string_view schema, std::string_view value, Scalars scalars = Scalars::typed,
                  std::size_t most = 100) {
  const auto parsed = Schema::parse(schema);
  if (!parsed) return "SCHEMA " + fault_of(schema);
  Validator validator(**parsed);
  std::vector<Fault> faults;
  validator.validate(value, scalars, most, faults);
  std::string text;
  for (const Fault& fault : faults) text += (text.empty() ? "" : "; ") + fault.pointer + ": " + fault.reason;
  return text;
}

TEST(Schema, Types) {
  EXPECT_EQ(check(R"({"type":"integer"})", "7"), "");
  EXPECT_EQ(check(R"({"type":"integer"})", "7.0"), "");
  EXPECT_EQ(check(R"({"type":"integer"})", "18446744073709551615"), "");
  EXPECT_EQ(check(R"({"type":"integer"})", "7.5"), ": must be an integer");
  EXPECT_EQ(check(R"({"type":["string","null"]})", "null"), "");
  EXPECT_EQ(check(R"({"type":["null","string"]})", "[]"), ": must be null or a string");
  EXPECT_EQ(check(R"({"type":"object"})", "[]"), ": must be an object");
  EXPECT_EQ(check("true", "7"), "");
  EXPECT_EQ(check("false", "7"), ": is not allowed");
}

TEST(Schema, NumbersAndTexts) {
  EXPECT_EQ(check(R"({"minimum":1,"maximum":3})", "0.5"), ": must be at least 1");
  EXPECT_EQ(check(R"({"minimum":1,"maximum":3})", "3"), "");
  EXPECT_EQ(check(R"({"exclusiveMinimum":1,"exclusiveMaximum":3})", "1"), ": must be more than 1");
  EXPECT_EQ(check(R"({"exclusiveMinimum":1,"exclusiveMaximum":3})", "3"), ": must be less than 3");
  EXPECT_EQ(check(R"({"multipleOf":0.1})", "0.3"), "");
  EXPECT_EQ(check(R"({"multipleOf":5})", "7"), ": must be a multiple of 5");
  EXPECT_EQ(check(R"({"multipleOf":5})", "-9223372036854775808"), ": must be a multiple of 5");
  EXPECT_EQ(check(R"({"multipleOf":100000000000000000})", "150000000000000001"),
            ": must be a multiple of 100000000000000000");
  EXPECT_EQ(check(R"({"multipleOf":100000000000000000})", "2.5e17"), ": must be a multiple of 1e+17");
  EXPECT_EQ(check(R"({"minimum":18446744073709551615})", "1"), ": must be at least 1.8446744073709552e+19");
  EXPECT_EQ(check(R"({"minimum":1})", R"("x")"), "") << "what is no number is another keyword's matter";
  EXPECT_EQ(check(R"({"minLength":2,"maxLength":3})", R"("äöü")"), "") << "characters are counted";
  EXPECT_EQ(check(R"({"minLength":2,"maxLength":3})", R"("ä")"), ": must have at least 2 characters");
  EXPECT_EQ(check(R"({"minLength":2,"maxLength":3})", R"("abcd")"), ": must have at most 3 characters");
  EXPECT_EQ(check(R"({"pattern":"^[a-z]+$"})", R"("abc")"), "");
  EXPECT_EQ(check(R"({"pattern":"^[a-z]+$"})", R"("a1")"), ": must match ^[a-z]+$");
  EXPECT_EQ(check(R"({"pattern":"b"})", R"("abc")"), "") << "a pattern may lie anywhere";
  EXPECT_EQ(check(R"({"pattern":"^a\u0000b$"})", R"("a\u0000b")"), "");
  EXPECT_EQ(check(R"({"pattern":"^a\u0000b$"})", R"("a")"), std::string(": must match ^a\0b$", 18));
}

TEST(Schema, Formats) {
  const auto format = [](std::string name, std::string_view value) {
    return check(R"({"format":")" + name + "\"}", "\"" + std::string(value) + "\"").empty();
  };
  EXPECT_TRUE(format("date", "2024-02-29"));
  EXPECT_FALSE(format("date", "2024-13-01"));
  EXPECT_TRUE(format("date-time", "2024-02-29T23:59:60.5+01:00"));
  EXPECT_FALSE(format("date-time", "2024-02-29T23:59:59"));
  EXPECT_TRUE(format("time", "12:00:00Z"));
  EXPECT_TRUE(format("uuid", "123E4567-e89b-12d3-a456-426614174000"));
  EXPECT_FALSE(format("uuid", "123e4567e89b12d3a456426614174000"));
  EXPECT_TRUE(format("email", "a@b.example"));
  EXPECT_FALSE(format("email", "a b@c"));
  EXPECT_TRUE(format("ipv4", "255.0.10.1"));
  EXPECT_FALSE(format("ipv4", "256.0.0.1"));
}

TEST(Schema, Objects) {
  constexpr std::string_view film = R"({
    "type": "object", "required": ["slug", "a/b"], "additionalProperties": false, "minProperties": 2, "maxProperties": 3,
    "properties": {"slug": {"type": "string"}, "a/b": {"properties": {"~": {"minimum": 1}}}},
    "patternProperties": {"^x_": {"type": "integer"}}, "propertyNames": {"maxLength": 4}})";
  EXPECT_EQ(check(film, R"({"slug":"heat","a/b":{"~":1},"x_1":7})"), "");
  EXPECT_EQ(check(film, R"({"slug":7,"a/b":{"~":0}})"), "/slug: must be a string; /a~1b/~0: must be at least 1");
  EXPECT_EQ(check(film, R"({"x_1":"7","y":1})"),
            "/x_1: must be an integer; /y: is not allowed; /a~1b: is missing; /slug: is missing");
  EXPECT_EQ(check(film, R"({"slug":"","a/b":1,"x_long":1})"), "/x_long: is not allowed as a name");
  EXPECT_EQ(check(film, R"({})"), ": must have at least 2 fields; /a~1b: is missing; /slug: is missing");
  EXPECT_EQ(check(R"({"additionalProperties":{"type":"null"}})", R"({"a":1})"), "/a: must be null");
  EXPECT_EQ(check(R"({"dependencies":{"a":["b"],"c":{"required":["d"]}}})", R"({"a":1,"c":1})"),
            "/b: is missing beside \"a\"; /d: is missing");
  EXPECT_EQ(check(R"({"properties":{"a":{"type":"string"}}})", R"({"a":"x","a":1})"), "/a: must be a string")
      << "also where a field comes twice";
}

TEST(Schema, Lists) {
  EXPECT_EQ(check(R"({"items":{"type":"integer"},"minItems":1,"maxItems":2})", R"([1,"2",true])"),
            "/1: must be an integer; /2: must be an integer; : must have at most 2 items");
  EXPECT_EQ(check(R"({"minItems":1})", "[]"), ": must have at least 1 items");
  EXPECT_EQ(check(R"({"items":[{"type":"integer"},{"type":"string"}],"additionalItems":false})", R"([1,2])"),
            "/1: must be a string");
  EXPECT_EQ(check(R"({"items":[{"type":"integer"}],"additionalItems":false})", R"([1,2])"),
            ": must have at most 1 items");
  EXPECT_EQ(check(R"({"items":[{"type":"integer"}]})", R"([1,"x"])"), "");
  EXPECT_EQ(check(R"({"contains":{"const":3}})", "[1,2,3]"), "");
  EXPECT_EQ(check(R"({"contains":{"const":3}})", "[1,2]"), ": has no item that it must have (contains)");
  EXPECT_EQ(check(R"({"uniqueItems":true})", R"([{"a":1,"b":[2]},{"b":[2.0],"a":1.0}])"),
            ": must not have an item twice");
  EXPECT_EQ(check(R"({"uniqueItems":true})", R"([1,"1",true,"true",[1],{},[]])"), "");
}

TEST(Schema, ValuesAndAlternatives) {
  EXPECT_EQ(check(R"({"enum":["a",1,{"b":[1]}]})", R"({"b":[1.0]})"), "");
  EXPECT_EQ(check(R"({"enum":["a",1]})", R"("b")"), R"(: must be one of "a", 1)");
  EXPECT_EQ(check(R"({"const":null})", "0"), ": must be null");
  EXPECT_EQ(check(R"({"anyOf":[{"type":"null"},{"minimum":3}]})", "2"),
            ": fits none of the alternatives of its schema (anyOf)");
  EXPECT_EQ(check(R"({"oneOf":[{"minimum":1},{"minimum":3}]})", "2"), "");
  EXPECT_EQ(check(R"({"oneOf":[{"minimum":1},{"minimum":3}]})", "4"),
            ": fits more than one of the alternatives of its schema (oneOf)");
  EXPECT_EQ(check(R"({"allOf":[{"minimum":1},{"maximum":3}]})", "4"), ": must be at most 3");
  EXPECT_EQ(check(R"({"not":{"type":"string"}})", R"("x")"), ": is what its schema excludes (not)");
  constexpr std::string_view conditional =
      R"({"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"else":{"required":["c"]}})";
  EXPECT_EQ(check(conditional, R"({"a":1})"), "/b: is missing");
  EXPECT_EQ(check(conditional, R"({"a":2})"), "/c: is missing");
}

// Clients depend on it, whatever the order of the keywords in the schema.
TEST(Schema, OrderOfFaults) {
  EXPECT_EQ(check(R"({"type":"string","required":["z"],"propertyNames":{"maxLength":1},"properties":{"aa":false},
                      "oneOf":[false],"not":true,"minProperties":3,"maxProperties":0,"then":false,"if":true,"enum":[1],
                      "dependencies":{"b":{"required":["x"]},"aa":["y","w"]},"const":2,"anyOf":[false],
                      "allOf":[false]})",
                  R"({"aa":1,"b":2})"),
            ": is not allowed; : fits none of the alternatives of its schema (anyOf); : must be 2; "
            "/w: is missing beside \"aa\"; /y: is missing beside \"aa\"; /x: is missing; : must be one of 1; "
            ": is not allowed; : must have at most 0 fields; : must have at least 3 fields; "
            ": is what its schema excludes (not); : fits none of the alternatives of its schema (oneOf); "
            "/aa: is not allowed; /aa: is not allowed as a name; /z: is missing; : must be a string");
  EXPECT_EQ(
      check(R"({"type":"integer","pattern":"x","multipleOf":4,"minLength":4,"minimum":9,"exclusiveMinimum":8,
                      "maxLength":0,"maximum":5,"exclusiveMaximum":6,"format":"date"})",
            R"("7.5")", Scalars::text),
      ": must be a date; : must be less than 6; : must be at most 5; : must have at most 0 characters; "
      ": must be more than 8; : must be at least 9; : must have at least 4 characters; : must be a multiple of 4; "
      ": must match x; : must be an integer");
  EXPECT_EQ(check(R"({"uniqueItems":true,"minItems":4,"maxItems":2,"items":[false],"contains":false})", "[1,1,1]"),
            ": has no item that it must have (contains); /0: is not allowed; : must have at most 2 items; "
            ": must have at least 4 items; : must not have an item twice");
}

TEST(Schema, ReferencesWithinIt) {
  constexpr std::string_view tree = R"({"definitions":{"tree":{"type":"object","properties":
      {"n":{"type":"integer"},"below":{"items":{"$ref":"#/definitions/tree"}}}}},"$ref":"#/definitions/tree"})";
  EXPECT_EQ(check(tree, R"({"n":1,"below":[{"n":2,"below":[{"n":"x"}]}]})"), "/below/0/below/0/n: must be an integer");
  EXPECT_EQ(
      check(R"({"properties":{"next":{"$ref":"#"}},"additionalProperties":false})", R"({"next":{"next":{"x":1}}})"),
      "/next/next/x: is not allowed");
  constexpr std::string_view mutual = R"({"definitions":{
      "a":{"$ref":"#/definitions/b","title":"annotations may stand beside it","default":1},
      "b":{"properties":{"x":{"$ref":"#/definitions/a"},"n":{"$ref":"#/definitions/c~1d"}}},
      "c/d":{"$ref":"#/definitions/e/items/1"},
      "e":{"items":[true,{"type":"integer"}]}},"$ref":"#/definitions/a"})";
  EXPECT_EQ(check(mutual, R"({"n":1,"x":{"x":{"n":"1"}}})"), "/x/x/n: must be an integer");
  EXPECT_EQ(
      check(R"({"definitions":{"none":false},"additionalProperties":{"$ref":"#/definitions/none"}})", R"({"x":1})"),
      "/x: is not allowed");
  EXPECT_EQ(check(R"({"properties":{"x":{"$ref":"#"}},"propertyNames":{"maxLength":1}})", R"({"x":{"yy":1}})"),
            "/x/yy: is not allowed as a name");
}

TEST(Schema, TextsOfFormatsWithoutTypes) {
  constexpr std::string_view row = R"({"properties":{"n":{"type":"integer","minimum":3},"b":{"type":"boolean"},
      "e":{"enum":[1,2]},"s":{"type":"string"}}})";
  EXPECT_EQ(check(row, R"({"n":"7","b":"true","e":"2","s":"7"})", Scalars::text), "");
  EXPECT_EQ(check(row, R"({"n":"1","b":"maybe","e":"3"})", Scalars::text),
            "/n: must be at least 3; /b: must be true or false; /e: must be one of 1, 2");
  EXPECT_EQ(check(row, R"({"n":"7"})"), "/n: must be an integer") << "JSON has types";
}

TEST(Schema, FaultsAreBounded) {
  std::string list = "[";
  for (int i = 0; i < 300; ++i) list += "1,";
  list.back() = ']';
  const std::string faults = check(R"({"items":{"type":"string"}})", list, Scalars::typed, 3);
  EXPECT_EQ(faults, "/0: must be a string; /1: must be a string; /2: must be a string");
}

TEST(Schema, WorkIsBounded) {
  // Two ways into each level, both of which fail: 2^60 steps without a limit. `not` must not turn this into success.
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += R"({"a":)";
  deep += "1" + std::string(60, '}');
  EXPECT_EQ(check(R"({"definitions":{"d":{"anyOf":[
      {"properties":{"a":{"$ref":"#/definitions/d"}},"required":["a","z"]},
      {"properties":{"a":{"allOf":[{"$ref":"#/definitions/d"}]}},"required":["a","z"]}]}},
      "not":{"$ref":"#/definitions/d"}})",
                  deep),
            ": takes too long to compare with its schema");
  std::string nested;
  for (std::size_t i = 0; i <= deepest_application; ++i) nested += R"({"a":)";
  EXPECT_EQ(check(R"({"properties":{"a":{"$ref":"#"}}})", nested + "1" + std::string(deepest_application + 1, '}')),
            ": is nested too deeply for its schema");
  // A pattern that takes exponential time in other engines.
  EXPECT_EQ(check(R"({"pattern":"^(a+)+$"})", "\"" + std::string(50'000, 'a') + "!\""), ": must match ^(a+)+$");
  std::string many = "[";
  for (int i = 0; i < 20'000; ++i) many += std::to_string(i) + ",";
  many.back() = ']';
  EXPECT_EQ(check(R"({"uniqueItems":true})", many), "");
}

TEST(Schema, NumbersOutOfRange) {
  EXPECT_EQ(check("{}", "1e999"), ": holds a number that is out of range");
  EXPECT_EQ(check("{}", "123456789012345678901234567890"), ": holds a number that is out of range");
}

TEST(Rules, WhatIsRefusedAtTheStart) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", ": it is not JSON"},
      {"[]", ": a schema is an object, true or false"},
      {R"({"propertis":{}})", "/propertis: the keyword \"propertis\" is not known"},
      {R"({"properties":{"a":{"$id":"x"}}})", "/properties/a/$id: the keyword"},
      {R"({"properties":{"a":7}})", "/properties/a: a schema is"},
      {R"({"type":"text"})", "/type: a type is one of"},
      {R"({"type":[]})", "/type: must not be empty"},
      {R"({"enum":[]})", "/enum: must not be empty"},
      {R"({"required":["a",1]})", "/required: must be a list of names"},
      {R"({"minLength":-1})", "/minLength: must be an integer of at least 0"},
      {R"({"minimum":"1"})", "/minimum: must be a number"},
      {R"({"multipleOf":0})", "/multipleOf: must be more than 0"},
      {R"({"uniqueItems":1})", "/uniqueItems: must be true or false"},
      {R"x({"pattern":"(?=a)"})x", "/pattern: this regular expression cannot be taken"},
      {R"({"patternProperties":{"(":{}}})", "/patternProperties/(: this regular expression"},
      {R"({"format":"hostname"})", "/format: the format \"hostname\" is not known: it is one of date, time"},
      {R"({"$ref":"https://example.com/a.json"})", "/$ref: only references within"},
      {R"({"$ref":"other.json#/a"})", "/$ref: only references within"},
      {R"({"$ref":"#name"})", "/$ref: a reference is a path"},
      {R"({"$ref":"#/definitions/x"})", "/$ref: there is no \"#/definitions/x\""},
      {R"({"definitions":{"a":{}},"$ref":"#/definitions/a","minimum":1})", "/minimum: beside \"$ref\""},
      {R"({"definitions":{"a":{}},"$ref":"#/definitions/a","const":1})", "/const: beside \"$ref\""},
      {R"({"$ref":"#"})", ": this schema applies itself"},
      {R"({"anyOf":[{"not":{"$ref":"#"}}]})", ": this schema applies itself"},
      {R"({"then":{}})", ": \"then\" and \"else\" need an \"if\""},
      {R"({"additionalItems":false})", "/additionalItems: it is for"},
      {R"({"minimum":1,"minimum":2})", "/minimum: this is there twice"},
      {R"({"definitions":{"unused":{"type":"x"}}})", "/definitions/unused/type: a type is"},
  };
  for (const auto& [schema, fault] : cases)
    EXPECT_TRUE(fault_of(schema).starts_with(fault)) << schema << "\n" << fault_of(schema);
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += R"({"not":)";
  EXPECT_TRUE(fault_of(deep + "{}" + std::string(200, '}')).contains("nested deeper"));
  EXPECT_EQ(fault_of(R"({"$schema":"http://json-schema.org/draft-07/schema#","$id":"x","title":"t","x-any":[1]})"), "");
}

TEST(Rules, AllFaultsAreTold) {
  const auto parsed = Schema::parse(R"({"type":"objekt","patern":"a","properties":{"a":{"type":7,"minLength":-1}}})");
  ASSERT_FALSE(parsed);
  std::string pointers;
  for (const Fault& fault : parsed.error()) pointers += fault.pointer + " ";
  EXPECT_EQ(pointers, "/type /patern /properties/a/type /properties/a/minLength ");
  std::string many = R"({"allOf":[)";
  for (std::size_t i = 0; i < 2 * most_faults; ++i) many += R"({"type":"x"},)";
  many.back() = ']';
  EXPECT_EQ(Schema::parse(many + "}").error().size(), most_faults);
}

TEST(Rules, InAnotherDocument) {
  EXPECT_EQ(
      relocated(R"({"$schema":"s","$id":"i","definitions":{"a":{"$ref":"#"}},"items":[{"$ref":"#/definitions/a"}],
                         "additionalItems":false,"enum":[{"$ref":"#"}],"properties":{"$ref":{"type":"string"}},
                         "dependencies":{"a":["b"],"c":{"$ref":"#/definitions/a"}}})",
                "#/components/schemas/X"),
      R"({"definitions":{"a":{"$ref":"#/components/schemas/X"}},)"
      R"("prefixItems":[{"$ref":"#/components/schemas/X/definitions/a"}],"items":false,"enum":[{"$ref":"#"}],)"
      R"("properties":{"$ref":{"type":"string"}},)"
      R"("dependentSchemas":{"c":{"$ref":"#/components/schemas/X/definitions/a"}},"dependentRequired":{"a":["b"]}})");
}

}  // namespace
}  // namespace sluice::api::schema
