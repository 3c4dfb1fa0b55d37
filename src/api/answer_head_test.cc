#include "api/answer_head.h"

#include <vector>

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

TEST(AnswerHead, OfAnAnswer) {
  Preference preference;
  http::Response response;
  AnswerHead{.preference = preference, .cache_control = {}}.fill(response);
  ASSERT_EQ(response.fields.items().size(), 1u);
  EXPECT_EQ(response.fields.get("content-type"), "application/json");

  preference = {.format = sql::Format::csj, .header = sql::Header::absent, .negotiated = true};
  http::Response other;
  AnswerHead{.preference = preference, .cache_control = "no-cache", .age = 2500ms}.fill(other);
  EXPECT_EQ(other.fields.get("content-type"), sql::media_type(sql::Format::csj, sql::Header::absent));
  EXPECT_EQ(other.fields.get("vary"), "Accept");
  EXPECT_EQ(other.fields.get("cache-control"), "no-cache");
  EXPECT_EQ(other.fields.get("age"), "2");
}

TEST(AnswerHead, OfOneThatIsKnown) {
  Preference preference;
  preference.negotiated = true;
  const std::vector<http::Field> fields{{"If-None-Match", "\"7;gzip\""}, {"Accept-Encoding", "gzip"}};
  http::Request request;
  request.fields = fields;
  const Conditions conditions(request);
  const AnswerHead head{.preference = preference, .cache_control = "no-cache", .age = -1s};
  http::Response known = head.not_modified(conditions, "\"7\"");
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.fields.get("etag"), "\"7;gzip\"") << "the client's own";
  EXPECT_TRUE(known.tag_takes_suffix);
  EXPECT_EQ(known.fields.get("vary"), "Accept");
  EXPECT_EQ(known.fields.get("cache-control"), "no-cache");
  EXPECT_EQ(known.fields.get("age"), "0") << "the clock of another core may be behind";
  EXPECT_EQ(known.fields.get("content-type"), "");

  EXPECT_EQ(head.not_modified(conditions, "\"8\"").fields.get("etag"), "\"8\"");
  http::Response whatever = head.not_modified(conditions, {});
  EXPECT_EQ(whatever.fields.get("etag"), "");
  EXPECT_FALSE(whatever.tag_takes_suffix);
}

}  // namespace
}  // namespace sluice::api
