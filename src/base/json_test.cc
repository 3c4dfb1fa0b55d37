#include "base/json.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Json, Escapes) {
  Buffer out;
  append_json_escaped(out, std::string_view("a\"b\\c\n\t\r\b\f\x01\x1f\0é", 15));
  EXPECT_EQ(out.view(), "a\\\"b\\\\c\\n\\t\\r\\b\\f\\u0001\\u001f\\u0000é");
}

TEST(Json, StepsOfAPointer) {
  std::string out = "/";
  append_pointer_escaped(out, "a/b~1~");
  EXPECT_EQ(out, "/a~1b~01~0");
}

}  // namespace
}  // namespace sluice
