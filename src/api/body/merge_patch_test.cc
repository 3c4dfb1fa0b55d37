#include "api/body/merge_patch.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

struct Case {
  const char* target;
  const char* patch;
  const char* result;
};

TEST(MergePatch, FollowsTheExamplesOfTheRfc) {
  for (const auto& [target, patch, result] :
       {Case{R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
        Case{R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"}, Case{R"({"a":"b"})", R"({"a":null})", "{}"},
        Case{R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
        Case{R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
        Case{R"({"a":"c"})", R"({"a":["b"]})", R"({"a":["b"]})"},
        Case{R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
        Case{R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
        Case{R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
        Case{"[1,2]", R"({"a":"b","c":null})", R"({"a":"b"})"},
        Case{"{}", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"}}) {
    EXPECT_EQ(merge_patch(target, patch), result) << target << patch;
  }
}

TEST(MergePatch, ValuesThatStayKeepTheirText) {
  EXPECT_EQ(merge_patch(R"({ "n" : 1.50 , "deep": {"x": [ 1, 2 ]}, "big": 1e400 })", R"({"b": true})"),
            R"({"n":1.50,"deep":{"x": [ 1, 2 ]},"big":1e400,"b":true})");
  EXPECT_EQ(merge_patch(R"({"\u0061":1})", R"({"a":{"\"":2}})"), R"({"a":{"\"":2}})");
}

TEST(MergePatch, OtherTextsCountAsAnEmptyObject) {
  for (const char* target : {"", "null", "5", "not json", R"({"a":1)", R"("text")"}) {
    EXPECT_EQ(merge_patch(target, R"({"b":null,"c":0})"), R"({"c":0})") << target;
  }
}

}  // namespace
}  // namespace sluice::api
