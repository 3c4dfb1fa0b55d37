#include "api/body/form_reader.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/body/test_support.h"

namespace sluice::api {
namespace {

const std::vector<std::string> ab{"a", "b"};

std::string form(std::string_view body, const std::vector<std::string>& names = ab, const RowLimits& limits = {},
                 bool allow_unknown = false) {
  return said(BodyFormat::form, names, body, limits, allow_unknown);
}

TEST(Form, ReadsOneRow) {
  EXPECT_EQ(form("a=1&b=two+words%21"), "\"1\" \"two words!\"\nend of one");
  EXPECT_EQ(form("&b=%e2%82%AC=&&%61&"), "\"\" \"\u20ac=\"\nend of one");
  EXPECT_EQ(form("[a]=1"), "bad 1:0 [a]: there is no field \"[a]\"\nend of one");
  for (const char* json : {R"({"a":1})", " [{}]\r\n", "[]", "{}"}) {
    EXPECT_EQ(form(json),
              "broken 1:0 the body is JSON, and its Content-Type is application/x-www-form-urlencoded: send "
              "Content-Type: application/json\n");
  }
  EXPECT_EQ(form("a="), "\"\" -\nend of one");
  EXPECT_EQ(form("&"), "- -\nend of one");
  EXPECT_EQ(form("a.b=1&c=%2b", {"a.b", "c", "a.b"}), "\"1\" \"+\" \"1\"\nend of one");
  EXPECT_EQ(form("a=1&admin=true", ab, {}, true), "\"1\" -\nend of one");
}

TEST(Form, RefusesBodies) {
  EXPECT_EQ(form(""), "broken 1:0 the body is empty\n");
  for (const char* bad : {"%", "%4", "%zz", "%4z", "x%", "%%41"}) {
    EXPECT_EQ(form("a=1&b=" + std::string(bad)), "broken 1:0 b: there is an invalid escape\n");
    EXPECT_EQ(form(std::string(bad) + "=1"), "broken 1:0 there is an invalid escape\n");
  }
  EXPECT_EQ(form("a=1&c=2"), "bad 1:0 c: there is no field \"c\"\nend of one");
  EXPECT_EQ(form("a=1", {"a.b"}), "bad 1:0 a: there is no field \"a\"\nend of one");
  EXPECT_EQ(form("=1", {"", "a"}), "bad 1:0 there is no field \"\"\nend of one");
  EXPECT_EQ(form("a=1\n&b=2&%61=3"), "bad 2:0 a: the field is there twice\nend of one");
  EXPECT_EQ(form("a=%ff"), "bad 1:0 a: the value is not valid UTF-8, or holds the character NUL\nend of one");
  EXPECT_EQ(form("a=x%00"), "bad 1:0 a: the value is not valid UTF-8, or holds the character NUL\nend of one");
  EXPECT_EQ(form("%00=x"), "bad 1:0 a name is not valid UTF-8, or holds the character NUL\nend of one");
  EXPECT_EQ(form("a=1&b=2&c=3", ab, {.columns = 1}), "broken 1:0 the form has more than 2 fields\n");
  EXPECT_EQ(form("a=1&b=2", ab, {.row_bytes = 6}), "broken 1:0 the form is longer than 6 bytes\n");
  EXPECT_EQ(form("a=1&b=2", ab, {.row_bytes = 7}), "\"1\" \"2\"\nend of one");
}

}  // namespace
}  // namespace sluice::api
