#include "api/negotiation.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

// Returns "json" and the like, or "csv-" without a header line, or "" if nothing is acceptable.
std::string preference(std::vector<http::Field> fields, std::string_view extension = {}, sql::FormatSet formats = {}) {
  http::Request request;
  request.fields = fields;
  request.extension = extension;
  const auto found = preference_of(request, formats);
  if (!found) return "";
  EXPECT_EQ(found->negotiated, extension.empty());
  EXPECT_EQ(found->request, &request);
  const bool lines = found->format == sql::Format::csv || found->format == sql::Format::csj;
  std::string text;
  switch (found->format) {
    case sql::Format::json:
      text = "json";
      break;
    case sql::Format::csv:
      text = "csv";
      break;
    case sql::Format::ndjson:
      text = "ndjson";
      break;
    case sql::Format::csj:
      text = "csj";
      break;
  }
  if (lines && found->header == sql::Header::absent) text += "-";
  return text;
}

TEST(Negotiation, OfTheFormatsThatThereAre) {
  constexpr sql::Format lines[] = {sql::Format::ndjson, sql::Format::csv};
  const sql::FormatSet two(lines);
  EXPECT_EQ(preference({}, {}, two), "csv");
  EXPECT_EQ(preference({{"accept", "*/*"}}, {}, two), "csv");
  EXPECT_EQ(preference({{"accept", "application/*, text/csv;q=0.5"}}, {}, two), "ndjson");
  EXPECT_EQ(preference({{"accept", "application/json, application/csj"}}, {}, two), "");
  EXPECT_EQ(preference({}, ".csv", two), "csv");
  EXPECT_EQ(preference({}, ".json", two), "");
  EXPECT_EQ(preference({}, ".json", sql::FormatSet(std::span<const sql::Format>())), "json");
}

TEST(Negotiation, ByAccept) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"*/*", "json"},
      {"application/json", "json"},
      {"text/csv", "csv"},
      {"text/csv; header=absent", "csv-"},
      {"text/csv;header=present", "csv"},
      {"application/csj", "csj"},
      {"application/csj; header=absent", "csj-"},
      {"application/x-ndjson", "ndjson"},
      {"text/*", "csv"},
      {"application/*", "json"},
      {"application/json;q=0.5, text/csv", "csv"},
      {"application/json;q=0.5, text/csv;q=0.5", "json"},
      {"text/csv;q=0, */*", "json"},
      {"application/json;q=0, */*;q=0.1", "csv"},
      {"image/png", ""},
      {"application/json;q=0", ""},
      {"text/html, application/xhtml+xml, */*;q=0.8", "json"},
  };
  for (const auto& [accept, expected] : cases) EXPECT_EQ(preference({{"Accept", accept}}), expected) << accept;
  EXPECT_EQ(preference({}), "json");
  EXPECT_EQ(preference({{"Accept", "image/png"}, {"Accept", "text/csv"}}), "csv") << "several lines are one list";
}

TEST(Negotiation, AnExtensionDecides) {
  EXPECT_EQ(preference({{"Accept", "image/png"}}, ".csv"), "csv");
  EXPECT_EQ(preference({{"Accept", "text/csv"}}, ".ndjson"), "ndjson");
}

TEST(Negotiation, TrailersAreForWhoTakesThem) {
  http::Request request;
  EXPECT_FALSE(preference_of(request)->trailers);
  for (const auto& [te, takes] : {std::pair{"trailers", true}, {"gzip, trailers", true}, {"gzip", false}}) {
    const std::vector<http::Field> fields{{"TE", te}};
    request.fields = fields;
    EXPECT_EQ(preference_of(request)->trailers, takes) << te;
  }
}

TEST(Negotiation, WhatThereIsIsSaid) {
  const http::Response refused = not_acceptable();
  EXPECT_EQ(refused.status, 406);
  EXPECT_EQ(refused.fields.get("Vary"), "Accept");
}

TEST(Negotiation, ALayoutForEachFormat) {
  const std::vector<sql::Column> columns{{"n", {}, 0}};
  for (const auto& layout : make_layouts(columns, false)) EXPECT_NE(layout, nullptr);
}

}  // namespace
}  // namespace sluice::api
