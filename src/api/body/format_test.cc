#include "api/body/format.h"

#include <optional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

TEST(BodyFormat, IsNamedByTheContentType) {
  EXPECT_EQ(body_format("application/json"), BodyFormat::json);
  EXPECT_EQ(body_format("Application/JSON"), BodyFormat::json);
  EXPECT_EQ(body_format("application/Merge-Patch+json"), BodyFormat::merge_patch);
  EXPECT_EQ(body_format("application/x-ndjson"), BodyFormat::ndjson);
  EXPECT_EQ(body_format("application/ndjson"), BodyFormat::ndjson);
  EXPECT_EQ(body_format("text/csv"), BodyFormat::csv);
  EXPECT_EQ(body_format("application/csj"), BodyFormat::csj);
  EXPECT_EQ(body_format("application/x-www-form-urlencoded"), BodyFormat::form);
}

TEST(BodyFormat, TakesParameters) {
  for (const char* parameters :
       {";charset=utf-8", "; charset=UTF-8", " ; Charset=\"utf-8\"", ";charset=us-ascii", ";", "; ;; header=present",
        ";header=\"pre\\sent\"", "; boundary=\"a;b\" ; charset=utf-8 "}) {
    EXPECT_EQ(body_format("text/csv" + std::string(parameters)), BodyFormat::csv) << parameters;
  }
}

TEST(BodyFormat, RefusesTheRest) {
  for (const char* type : {"",
                           " ",
                           "json",
                           "application/",
                           "/json",
                           "application",
                           "text/plain",
                           "text/json",
                           "application/csv",
                           "application/+json",
                           "application/json-patch+json",
                           "application/vnd.api+json",
                           "text/x+json",
                           "application/xml",
                           "multipart/form-data; boundary=x",
                           "application/json,text/csv",
                           "application/json x",
                           "application /json",
                           "application/json; charset=iso-8859-1",
                           "text/csv; charset=\"latin1\"",
                           "text/csv; header=absent",
                           "application/csj;header=ABSENT",
                           "text/csv; charset",
                           "text/csv; charset=",
                           "text/csv; charset=\"utf-8",
                           "text/csv; charset=\"utf-8\\",
                           "text/csv; =x",
                           "text/csv; charset =utf-8",
                           "text/csv; charset=utf-8 x",
                           "text/csv; charset=utf-8\"x\""}) {
    EXPECT_EQ(body_format(type), std::nullopt) << type;
  }
}

TEST(BodyFormat, IsListed) {
  std::string_view rest = accepted_types();
  for (;;) {
    const auto comma = rest.find(", ");
    const std::string_view type = rest.substr(0, comma);
    EXPECT_NE(body_format(type), std::nullopt) << type;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 2);
  }
}

TEST(BodyFormat, OfARequest) {
  const auto format = [](std::vector<http::Field> fields) {
    http::Request request;
    request.fields = fields;
    return body_format(request);
  };
  EXPECT_EQ(format({{"content-type", "text/csv"}}), BodyFormat::csv);
  EXPECT_EQ(format({{"Content-Type", "text/csv"}, {"Content-Encoding", "Identity"}}), BodyFormat::csv);
  EXPECT_EQ(format({}), std::nullopt);
  EXPECT_EQ(format({{"content-type", "text/csv"}, {"Content-Type", "application/json"}}), std::nullopt);
  EXPECT_EQ(format({{"content-type", "text/csv"}, {"Content-Type", "text/csv"}}), std::nullopt);
  EXPECT_EQ(format({{"content-type", "text/csv"}, {"content-encoding", "gzip"}}), std::nullopt);
}

}  // namespace
}  // namespace sluice::api
