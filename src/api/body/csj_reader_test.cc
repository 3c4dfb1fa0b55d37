#include "api/body/csj_reader.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/body/test_support.h"

namespace sluice::api {
namespace {

const std::vector<std::string> ab{"a", "b"};

std::string csj(std::string_view body, const std::vector<std::string>& names = ab, const RowLimits& limits = {},
                bool allow_unknown = false) {
  return said(BodyFormat::csj, names, body, limits, allow_unknown);
}

TEST(Csj, ReadsRows) {
  EXPECT_EQ(csj("\"a\",\"b\"\n1.50,\"x\\n\"\nnull,true\n[1,[2]],{\"x\":\"\\u0041\"}"),
            "1.50 \"x\n\"\nnull true\n[1,[2]] {\"x\":\"\\u0041\"}\nend");
  EXPECT_EQ(csj("\xef\xbb\xbf \"b\" , \"a\" \r\n 1 , 2 \r\n\r\n\n3,4"), "2 1\n4 3\nend");
  EXPECT_EQ(csj("\"b\"\n\"\"\n"), "- \"\"\nend");
  EXPECT_EQ(csj("\"a\",\"b\""), "end");
  EXPECT_EQ(csj("\"\\u0061\",\"b\"\n\"\\t\",\"\\n\"\n"), "\"\t\" \"\n\"\nend");
  EXPECT_EQ(csj("\"a.b\",\"c\"\n1,2\n", {"a.b", "c"}), "1 2\nend");
  EXPECT_EQ(csj("\"a\"\n{\"b\":1}\nnull\n{}\n", {"a.b", "c"}), "1 -\n- -\n- -\nend");
  EXPECT_EQ(csj("\"x\",\"a\"\n[1],2\n", ab, {}, true), "2 -\nend");
}

TEST(Csj, RefusesHeaders) {
  EXPECT_EQ(csj(""), "broken 1:0 the body is empty\n");
  EXPECT_EQ(csj("\n \r\n"), "broken 3:0 the body is empty\n");
  EXPECT_EQ(csj("a,b\n"), "broken 1:0 a name in quotes is expected\n");
  EXPECT_EQ(csj("1\n"), "broken 1:0 a name in quotes is expected\n");
  EXPECT_EQ(csj("\n\"a\",\n"), "broken 2:0 the text ends in the middle of a row\n");
  EXPECT_EQ(csj("\"a\" \"b\"\n"), "broken 1:0 a comma is expected behind a name\n");
  EXPECT_EQ(csj("\"a\",\"c\"\n"), "broken 1:0 c: there is no field \"c\"\n");
  EXPECT_EQ(csj("\"a\",\"\\u0061\"\n"), "broken 1:0 a: the column is there twice\n");
  EXPECT_EQ(csj("\"a\",\"b\",\"c\"\n", ab, {.columns = 1}), "broken 1:0 the header has more than 2 columns\n");
  EXPECT_EQ(csj("\"a\",\"b\"\n", ab, {.row_bytes = 6}), "broken 1:0 the header line is too long\n");
}

TEST(Csj, RefusesBadRowsAndGoesOn) {
  EXPECT_EQ(csj("\"a\",\"b\"\n1\n1,2,3\n1,2,\n1,\n,2\n1 2\nx,1\n\"\\ud800\",2\n1,{\"y\":\n5,6"),
            "bad 2:0 the row has 1 of the header's 2 fields\n"
            "bad 3:1 the row has more fields than the header, which has 2\n"
            "bad 4:2 the row has more fields than the header, which has 2\n"
            "bad 5:3 b: the text ends in the middle of a row\nbad 6:4 a: a value is expected\n"
            "bad 7:5 a: a comma is expected behind a value\nbad 8:6 a: a value is expected\n"
            "bad 9:7 a: a lone surrogate\n"
            "bad 10:8 b: the text ends in the middle of a row\n5 6\nend");
  EXPECT_EQ(csj("\"a\"\n{\"x\":1}\n3\n", {"a.b"}),
            "bad 2:0 a: there is no field \"x\"\nbad 3:1 a: an object is expected\nend");
}

TEST(Csj, KeepsItsLimits) {
  EXPECT_EQ(csj("\"a\",\"b\"\n12345,7\n12345,78\n1,2\n", ab, {.row_bytes = 7}),
            "12345 7\nbad 3:1 the row is longer than 7 bytes\n1 2\nend");
  EXPECT_EQ(csj("\"a\",\"b\"\n[],[]\n[[]],[]\n", ab, {.depth = 1}),
            "[] []\nbad 3:1 a: it is nested deeper than 1 levels\nend");
}

}  // namespace
}  // namespace sluice::api
