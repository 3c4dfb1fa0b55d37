#include "app/suite/variables.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace sluice::app::suite {
namespace {

class VariablesTest : public testing::Test {
 protected:
  VariablesTest() {
    variables.values["id"] = Json::number("42");
    variables.values["slug"] = Json::string("a/b ß");
    variables.values["film"] = *parse_json(R"({"a":[1]})");
    ::setenv("SLUICE_SUITE_TEST", "here", 1);
    ::unsetenv("SLUICE_SUITE_NONE");
  }
  std::string in_text(std::string_view text) const {
    const auto expanded = expand(text, variables);
    return expanded ? *expanded : "error: " + expanded.error();
  }
  Variables variables;
};

TEST_F(VariablesTest, InTexts) {
  EXPECT_EQ(in_text("/films/${id}"), "/films/42");
  EXPECT_EQ(in_text("${slug}${id}"), "a/b ß42");
  EXPECT_EQ(in_text("${film}!"), "{\"a\": [1]}!");
  EXPECT_EQ(in_text("$${id} $ {id} $"), "${id} $ {id} $");
  EXPECT_EQ(in_text(""), "");
  EXPECT_EQ(in_text("${env.SLUICE_SUITE_TEST} ${env.SLUICE_SUITE_NONE:-there}"), "here there");
  EXPECT_EQ(in_text("${other}"), "error: ${other} has no value: the step that sets it has failed");
  EXPECT_EQ(in_text("${env.SLUICE_SUITE_NONE}"),
            "error: ${env.SLUICE_SUITE_NONE} has no value: the environment variable is not set");
}

TEST_F(VariablesTest, AreQuotedWhereTheyAreAPart) {
  const Quote quote = [](std::string_view text) { return "<" + std::string(text) + ">"; };
  EXPECT_EQ(*expand("/films/${slug}", variables, quote), "/films/<a/b ß>");
  EXPECT_EQ(*expand("${slug}", variables, quote), "a/b ß");
}

TEST_F(VariablesTest, InJson) {
  const auto value = parse_json(R"({"id": "${id}", "text": "no. ${id}", "all": ["${film}"], "n": 1})");
  EXPECT_EQ(print_json(*expand(*value, variables)), R"({"id": 42, "text": "no. 42", "all": [{"a": [1]}], "n": 1})");
  EXPECT_FALSE(expand(*parse_json(R"(["${other}"])"), variables));
}

TEST_F(VariablesTest, AreNoPatternAndNoMarker) {
  variables.values["dots"] = Json::string("#any.*");
  Json pattern = Json::string("#matches ^${dots}$");
  pattern.kind = Json::Kind::marker;
  EXPECT_EQ(expand(pattern, variables)->text, "#matches ^\\#any\\.\\*$");
  EXPECT_EQ(expand(Json::string("${dots}"), variables)->kind, Json::Kind::string);
}

TEST_F(VariablesTest, WhatIsNone) {
  for (const char* text : {"${", "${}", "${1}", "${a b}", "x ${id", "${id:-1}", "${:-a}"}) {
    EXPECT_FALSE(split_variables(text)) << text;
  }
  EXPECT_EQ(split_variables("ab${").error().offset, 2u);
}

}  // namespace
}  // namespace sluice::app::suite
