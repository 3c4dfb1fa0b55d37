#include "api/body/csv_reader.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/body/test_support.h"

namespace sluice::api {
namespace {

const std::vector<std::string> ab{"a", "b"};

std::string csv(std::string_view body, const std::vector<std::string>& names = ab, const RowLimits& limits = {},
                bool allow_unknown = false) {
  return said(BodyFormat::csv, names, body, limits, allow_unknown);
}

TEST(Csv, ReadsRows) {
  EXPECT_EQ(csv("a,b\n1,x\n2,y\n"), "\"1\" \"x\"\n\"2\" \"y\"\nend");
  EXPECT_EQ(csv("b,a\r\n1,x\r\n2,y"), "\"x\" \"1\"\n\"y\" \"2\"\nend");
  EXPECT_EQ(csv("\xef\xbb\xbf\"a\",\"b\"\n1,2"), "\"1\" \"2\"\nend");
  EXPECT_EQ(csv("b\nx\n"), "- \"x\"\nend");
  EXPECT_EQ(csv("a,b"), "end");
  EXPECT_EQ(csv("a,b\n"), "end");
  EXPECT_EQ(csv("a,b\r\n"), "end");
  EXPECT_EQ(csv("a.b,c\n1,2\n", {"a.b", "c"}), "\"1\" \"2\"\nend");
  EXPECT_EQ(csv("a\n1\n", {"", "a", "a"}), "- \"1\" \"1\"\nend");
  EXPECT_EQ(csv("a,b\n x , y\tz \n"), "\" x \" \" y\tz \"\nend");
}

TEST(Csv, TellsNullFromTheEmptyString) {
  EXPECT_EQ(csv("a,b\n,\n\"\",\"\"\n,\"\"\r\n\"\",\r\n,"),
            "null null\n\"\" \"\"\nnull \"\"\n\"\" null\nnull null\nend");
  EXPECT_EQ(csv("a\nx\n\n\"\"\n\r\n\\.\n", {"a"}), "\"x\"\nnull\n\"\"\nnull\n\"\\.\"\nend");
}

TEST(Csv, ReadsQuotedFields) {
  EXPECT_EQ(csv("a,b\n\"x,y\",\"1\n2\r\n3\"\n\"say \"\"no\"\"\",\"\"\"\"\r\n\"\"\"\"\"\",\"x\""),
            "\"x,y\" \"1\n2\r\n3\"\n\"say \"no\"\" \"\"\"\n\"\"\"\" \"x\"\nend");
  EXPECT_EQ(csv("\"a\"\"b\",\"c,\nd\"\n1,2\n", {"a\"b", "c,\nd"}), "\"1\" \"2\"\nend");
  for (const char special : {',', '\n', '\r', '"'}) {
    for (std::size_t size = 0; size < 40; ++size) {
      for (std::size_t at = 0; at <= size; ++at) {
        const std::string before(at, 'x');
        const std::string after(size - at, 'y');
        const std::string twice(special == '"' ? 2 : 1, special);
        EXPECT_EQ(said_of(BodyFormat::csv, {ab}, {}, {"a,b\n\"" + before + twice + after + "\"," + after + "\n"}),
                  '"' + before + special + after + "\" " + (after.empty() ? "null" : '"' + after + '"') + "\nend");
      }
    }
  }
}

TEST(Csv, RefusesHeaders) {
  EXPECT_EQ(csv(""), "broken 1:0 the body is empty\n");
  EXPECT_EQ(csv("\xef\xbb\xbf"), "broken 1:0 the body is empty\n");
  EXPECT_EQ(csv("\na,b\n"), "broken 1:0 the header line is empty\n");
  EXPECT_EQ(csv("a,c\n1,2\n"), "broken 1:0 c: there is no field \"c\"\n");
  EXPECT_EQ(csv("a,\n1,2\n"), "broken 1:0 there is no field \"\"\n");
  EXPECT_EQ(csv("a\n1\n", {"a.b"}), "broken 1:0 a: there is no field \"a\"\n");
  EXPECT_EQ(csv("\"\",a\n", {"", "a"}), "broken 1:0 there is no field \"\"\n");
  EXPECT_EQ(csv("\"a\n\",\"a\n\",b\n", {"a\n", "b"}), "broken 2:0 a\n: the column is there twice\n");
  EXPECT_EQ(csv("x,a,y\n1,2,3\n", ab, {}, true), "\"2\" -\nend");
  EXPECT_EQ(csv("x,x\n", ab, {}, true), "broken 1:0 x: the column is there twice\n");
  EXPECT_EQ(csv("a,\"b\n1,2\n"), "broken 1:0 a quote begins in line 1 and never ends\n");
  EXPECT_EQ(csv("a,\"b\"x\n1,2\n"), "broken 1:0 there is text behind a closing quote\n");
  EXPECT_EQ(csv("a,b\xff\n"), "broken 1:0 the field is not valid UTF-8\n");
  EXPECT_EQ(csv("a,b,c\n1,2,3\n", ab, {.columns = 1}), "broken 1:0 the header has more than 2 columns\n");
  EXPECT_EQ(csv("a,b\n1,2\n", ab, {.row_bytes = 2}), "broken 1:0 the row is longer than 2 bytes\n");
}

TEST(Csv, RefusesBadRowsAndGoesOn) {
  EXPECT_EQ(
      csv("a,b\n1\n1,2,3\n\n1,2\n,,,\n"),
      "bad 2:0 the row has 1 field, the header has 2 fields\nbad 3:1 the row has 3 fields, the header has 2 fields\n"
      "bad 4:2 the row has 1 field, the header has 2 fields\n\"1\" \"2\"\n"
      "bad 6:4 the row has 4 fields, the header has 2 fields\nend");
  EXPECT_EQ(
      csv("a,b\n\"\n\"x,\"3\n\"\nx\"y,\"5\n\"\n1,2\r3\n1,\"2\"\r3\n\r\r\n1,2\r"),
      "bad 3:0 a: there is text behind a closing quote\nbad 5:1 a: there is a quote in a field that does not begin "
      "with one\nbad 7:2 b: there is a carriage return outside of quotes\nbad 8:3 b: there is a carriage return "
      "outside of quotes\nbad 9:4 a: there is a carriage return outside of quotes\n\"1\" \"2\"\nend");
  EXPECT_EQ(csv("a,b\n1,\"\n\xff\"\n\xc3,\xa9\n1,\xc3\xa9\n"),
            "bad 2:0 b: the field is not valid UTF-8\nbad 4:1 a: the field is not valid UTF-8\n\"1\" \"\u00e9\"\nend");
  const std::string nul("a,b\n1,x\0y\n\"\0\",2\n1,2", 19);
  EXPECT_EQ(csv(nul),
            "bad 2:0 b: the field holds the character NUL, which no text of a database may\n"
            "bad 3:1 a: the field holds the character NUL, which no text of a database may\n\"1\" \"2\"\nend");
}

TEST(Csv, SaysWhereAQuoteBegins) {
  EXPECT_EQ(csv("a,b\n1,2\n\"x\ny\",\"z\n1,2\n"), "\"1\" \"2\"\nbroken 4:1 a quote begins in line 4 and never ends\n");
  EXPECT_EQ(
      csv("a,b\n1,2\n\"x\ny\n", ab, {.row_bytes = 3}),
      "\"1\" \"2\"\nbad 3:1 the row is longer than 3 bytes\nbroken 3:2 a quote begins in line 3 and never ends\n");
  EXPECT_EQ(
      csv("a,b\n1,2\n\"x\ny\",123456,\"z\n1,2\n", ab, {.row_bytes = 4}),
      "\"1\" \"2\"\nbad 3:1 the row is longer than 4 bytes\nbroken 4:2 a quote begins in line 4 and never ends\n");
  // Cut between the two quotes of a doubled quote.
  EXPECT_EQ(csv("a,b\n\"123\"\"45\n", ab, {.row_bytes = 4}),
            "bad 2:0 the row is longer than 4 bytes\nbroken 2:1 a quote begins in line 2 and never ends\n");
}

TEST(Csv, KeepsItsLimits) {
  EXPECT_EQ(csv("a,b\n12,45\n12,456\n\"1\n34567890\",\"\n\"\n1,\"4\"\r\n1,2", ab, {.row_bytes = 6}),
            "\"12\" \"45\"\n\"12\" \"456\"\nbad 4:2 the row is longer than 6 bytes\n\"1\" \"4\"\n\"1\" \"2\"\nend");
}

}  // namespace
}  // namespace sluice::api
