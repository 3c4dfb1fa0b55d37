#include "files/conditions.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "files/http_date.h"

namespace sluice::files {
namespace {

using Verdict = Conditions::Verdict;
using Fields = std::vector<http::Field>;

constexpr std::int64_t modified = 1'700'000'000;
constexpr std::int64_t now = modified + 1000;
constexpr Validators current{.tag = "\"v1\"", .is_dated = true, .modified_s = modified};

Verdict judge(const Fields& fields, const Validators& validators = current) {
  return Conditions(fields).judge(validators, now);
}
std::string range(const Fields& fields, std::int64_t at = now) {
  return std::string(Conditions(fields).range(current, at));
}

const std::string same = http_date(modified);
const std::string before = http_date(modified - 1);
const std::string after = http_date(modified + 1);

TEST(Conditions, None) {
  const Fields fields{{"Host", "x"}, {"Accept", "*/*"}, {"Cache-Control", "no-cache"}, {"Via", "y"}, {"Refer", "z"}};
  EXPECT_TRUE(Conditions(fields).empty());
  EXPECT_EQ(judge(fields), Verdict::proceed);
  EXPECT_EQ(range(fields), "");
}

TEST(Conditions, IfNoneMatchComparesWeakly) {
  EXPECT_EQ(judge({{"If-None-Match", "\"v1\""}}), Verdict::not_modified);
  EXPECT_EQ(judge({{"if-none-match", "W/\"v1\""}}), Verdict::not_modified);
  EXPECT_EQ(judge({{"If-None-Match", "*"}}), Verdict::not_modified);
  EXPECT_EQ(judge({{"If-None-Match", "\"a,b\", W/\"c\" ,,\t\"v1\""}}), Verdict::not_modified);
  EXPECT_EQ(judge({{"If-None-Match", "\"a\""}, {"If-None-Match", "\"v1\""}}), Verdict::not_modified) << "one list";
  for (const char* list :
       {"", "v1", "\"v2\"", "\"v1", "v1\"", "w/\"v1\"", "W/ \"v1\"", "\"V1\"", "\"x\"\"v1\"", "\"*\"", "\"v1\"x"}) {
    EXPECT_EQ(judge({{"If-None-Match", list}}), Verdict::proceed) << list;
  }
  EXPECT_EQ(judge({{"If-None-Match", "garbage, \"v1\""}}), Verdict::not_modified);
}

TEST(Conditions, IfMatchComparesStrongly) {
  EXPECT_EQ(judge({{"If-Match", "\"v1\""}}), Verdict::proceed);
  EXPECT_EQ(judge({{"If-Match", "\"v0\", \"v1\""}}), Verdict::proceed);
  EXPECT_EQ(judge({{"If-Match", "*"}}), Verdict::proceed);
  EXPECT_EQ(judge({{"If-Match", "W/\"v1\""}}), Verdict::failed);
  EXPECT_EQ(judge({{"If-Match", "\"v2\""}}), Verdict::failed);
  EXPECT_EQ(judge({{"If-Match", ""}}), Verdict::failed);
}

TEST(Conditions, AnyBesideTagsIsMalformed) {
  for (const char* name : {"If-Match", "If-None-Match"}) {
    EXPECT_EQ(judge({{name, "\"v1\", *"}}), Verdict::malformed) << name;
    EXPECT_EQ(judge({{name, "*"}, {name, "\"v2\""}}), Verdict::malformed) << name;
  }
  EXPECT_EQ(judge({{"If-Match", "*"}, {"If-None-Match", "\"v2\""}}), Verdict::proceed) << "two conditions";
}

TEST(Conditions, Dates) {
  EXPECT_EQ(judge({{"If-Modified-Since", before}}), Verdict::proceed);
  EXPECT_EQ(judge({{"If-Modified-Since", same}}), Verdict::not_modified);
  EXPECT_EQ(judge({{"If-Modified-Since", after}}), Verdict::not_modified);
  EXPECT_EQ(judge({{"If-Modified-Since", "yesterday"}}), Verdict::proceed);
  EXPECT_EQ(judge({{"If-Unmodified-Since", before}}), Verdict::failed);
  EXPECT_EQ(judge({{"If-Unmodified-Since", same}}), Verdict::proceed);
  EXPECT_EQ(judge({{"If-Unmodified-Since", "yesterday"}}), Verdict::proceed);
  EXPECT_EQ(judge({{"If-Modified-Since", same}, {"If-Modified-Since", same}}), Verdict::proceed)
      << "void: it came twice";
  const Validators undated{.tag = "\"v1\"", .is_dated = false, .modified_s = 0};
  EXPECT_EQ(judge({{"If-Modified-Since", after}}, undated), Verdict::proceed);
  EXPECT_EQ(judge({{"If-Unmodified-Since", before}}, undated), Verdict::proceed);
}

TEST(Conditions, Precedence) {
  EXPECT_EQ(judge({{"If-Match", "\"v1\""}, {"If-Unmodified-Since", before}}), Verdict::proceed);
  EXPECT_EQ(judge({{"If-Match", "\"v2\""}, {"If-Unmodified-Since", after}}), Verdict::failed);
  EXPECT_EQ(judge({{"If-None-Match", "\"v2\""}, {"If-Modified-Since", same}}), Verdict::proceed);
  EXPECT_EQ(judge({{"If-None-Match", "\"v1\""}, {"If-Modified-Since", before}}), Verdict::not_modified);
  EXPECT_EQ(judge({{"If-Match", "\"v2\""}, {"If-None-Match", "\"v1\""}}), Verdict::failed);
  EXPECT_EQ(judge({{"If-None-Match", "\"v1\""}, {"If-Match", "\"v1\""}}), Verdict::not_modified);
  EXPECT_EQ(judge({{"If-Unmodified-Since", before}, {"If-None-Match", "\"v1\""}}), Verdict::failed);
}

TEST(Conditions, IfRange) {
  EXPECT_EQ(range({{"Range", "bytes=0-1"}}), "bytes=0-1");
  EXPECT_EQ(range({{"Range", "bytes=0-1"}, {"If-Range", "\"v1\""}}), "bytes=0-1");
  EXPECT_EQ(range({{"Range", "bytes=0-1"}, {"If-Range", same}}), "bytes=0-1");
  for (const std::string& other : {std::string("\"v2\""), std::string("W/\"v1\""), before, after, std::string("v1"),
                                   std::string("*"), std::string("\"v1\", \"v2\""), std::string()}) {
    EXPECT_EQ(range({{"Range", "bytes=0-1"}, {"If-Range", other}}), "") << other;
  }
  EXPECT_EQ(range({{"Range", "bytes=0-1"}, {"If-Range", same}}, modified), "") << "there may be another change yet";
  EXPECT_EQ(range({{"If-Range", "\"v1\""}}), "");
  EXPECT_EQ(range({{"Range", "bytes=0-1"}, {"Range", "bytes=0-1"}}), "") << "void: it came twice";
}

}  // namespace
}  // namespace sluice::files
