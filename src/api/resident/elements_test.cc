#include "api/resident/elements.h"

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::api::resident {
namespace {

using Texts = std::optional<std::vector<std::string>>;

Texts of_array(std::string_view text, char delimiter = ',') {
  std::vector<std::string> found;
  std::string scratch;
  const bool is_array = each_array_element(text, delimiter, scratch, [&](std::string_view element) {
    found.emplace_back(element);
    return true;
  });
  if (!is_array) return std::nullopt;
  return found;
}

Texts of_json(std::string_view text) {
  std::vector<std::string> found;
  std::string scratch;
  const bool good = each_json_element(text, scratch, [&](std::string_view element) {
    found.emplace_back(element);
    return true;
  });
  if (!good) return std::nullopt;
  return found;
}

Texts texts(std::initializer_list<const char*> list) { return std::vector<std::string>(list.begin(), list.end()); }

TEST(ResidentElements, OfArrays) {
  EXPECT_EQ(of_array("{}"), texts({}));
  EXPECT_EQ(of_array("{1}"), texts({"1"}));
  EXPECT_EQ(of_array("{1,2,3}"), texts({"1", "2", "3"}));
  EXPECT_EQ(of_array(R"({a,"b \"c",NULL,"NULL","d\\e","","x,y","{","}"})"),
            texts({"a", "b \"c", "NULL", "d\\e", "", "x,y", "{", "}"}));
  EXPECT_EQ(of_array("{a b,c}"), texts({"a b", "c"}));
  EXPECT_EQ(of_array("{{1,2},{3,NULL}}"), texts({"1", "2", "3"}));
  EXPECT_EQ(of_array(R"({{"a","}"},{b,"{"}})"), texts({"a", "}", "b", "{"}));
  EXPECT_EQ(of_array("{NULL,NULL}"), texts({}));
}

TEST(ResidentElements, OfArraysWithBounds) {
  EXPECT_EQ(of_array("[0:1]={7,8}"), texts({"7", "8"}));
  EXPECT_EQ(of_array("[-2:-1][1:2]={{1,2},{3,4}}"), texts({"1", "2", "3", "4"}));
}

TEST(ResidentElements, OfArraysWithAnotherDelimiter) {
  EXPECT_EQ(of_array("{(1,1),(0,0);(2,2),(1,1)}", ';'), texts({"(1,1),(0,0)", "(2,2),(1,1)"}));
}

TEST(ResidentElements, WhatIsNoArray) {
  for (const char* text : {"", "a", "1,2", "{", "}", "{1", "1}", "[0:1]=", "[0:1]={1,2", "[1,2]"}) {
    EXPECT_EQ(of_array(text), std::nullopt) << text;
  }
}

TEST(ResidentElements, OfJson) {
  EXPECT_EQ(of_json("[]"), texts({}));
  EXPECT_EQ(of_json("[1,2.50,true]"), texts({"1", "2.50", "true"}));
  EXPECT_EQ(of_json(R"( [ "a" , "b \"c" , null , {"d": "e"} , [1, 2] , "" ] )"), texts({"a", "b \"c", ""}));
  EXPECT_EQ(of_json(R"(["a,b","]","\u00e4"])"), texts({"a,b", "]", "\xc3\xa4"}));
  EXPECT_EQ(of_json(R"(["null"])"), texts({"null"}));
  EXPECT_EQ(of_json(R"("alone")"), texts({"alone"}));
  EXPECT_EQ(of_json(" 12 "), texts({"12"}));
  EXPECT_EQ(of_json("false"), texts({"false"}));
  EXPECT_EQ(of_json("null"), texts({}));
  EXPECT_EQ(of_json(R"({"a": 1})"), texts({}));
  EXPECT_EQ(of_json(""), texts({}));
}

TEST(ResidentElements, WhoeverTakesThemMayRefuse) {
  std::string scratch;
  int calls = 0;
  const auto refuse = [&](std::string_view) {
    ++calls;
    return false;
  };
  EXPECT_FALSE(each_array_element("{1,2}", ',', scratch, refuse));
  EXPECT_FALSE(each_array_element("{\"1\",2}", ',', scratch, refuse));
  EXPECT_FALSE(each_json_element("[1,2]", scratch, refuse));
  EXPECT_FALSE(each_json_element("\"1\"", scratch, refuse));
  EXPECT_EQ(calls, 4);
}

TEST(ResidentElements, BrokenTextsComeToAnEnd) {
  std::mt19937 random(9);
  static constexpr std::string_view letters = "{}[],\"\\;=: aN1u";
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t size = random() % 20;
    const auto memory = std::make_unique<char[]>(size);
    for (std::size_t k = 0; k < size; ++k) memory[k] = letters[random() % letters.size()];
    if (size >= 2 && i % 2 == 0) {
      memory[0] = '{';
      memory[size - 1] = '}';
    }
    const std::string_view text(memory.get(), size);
    std::size_t together = 0;
    for (const auto& found : {of_array(text), of_json(text)}) {
      if (!found) continue;
      for (const std::string& element : *found) together += element.size();
    }
    ASSERT_LE(together, size * 4);
  }
}

}  // namespace
}  // namespace sluice::api::resident
