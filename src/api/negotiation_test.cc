#include "api/negotiation.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

// As "json", "csv-" where the header line is not wanted; "" where nothing is acceptable.
std::string wish(std::vector<http::Field> fields, std::string_view extension = {}) {
  http::Request request;
  request.fields = fields;
  request.extension = extension;
  const auto found = wish_of(request);
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
  for (const auto& [accept, expected] : cases) EXPECT_EQ(wish({{"Accept", accept}}), expected) << accept;
  EXPECT_EQ(wish({}), "json");
  EXPECT_EQ(wish({{"Accept", "image/png"}, {"Accept", "text/csv"}}), "csv") << "several lines are one list";
}

TEST(Negotiation, AnExtensionDecides) {
  EXPECT_EQ(wish({{"Accept", "image/png"}}, ".csv"), "csv");
  EXPECT_EQ(wish({{"Accept", "text/csv"}}, ".ndjson"), "ndjson");
}

TEST(Negotiation, TrailersAreForWhoTakesThem) {
  http::Request request;
  EXPECT_FALSE(wish_of(request)->trailers);
  for (const auto& [te, takes] : {std::pair{"trailers", true}, {"gzip, trailers", true}, {"gzip", false}}) {
    const std::vector<http::Field> fields{{"TE", te}};
    request.fields = fields;
    EXPECT_EQ(wish_of(request)->trailers, takes) << te;
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
