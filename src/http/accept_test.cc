#include "http/accept.h"

#include <vector>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

std::uint16_t quality(std::string_view accept, std::string_view type, std::string_view subtype) {
  const std::vector<Field> fields{{"Host", "x"}, {"Accept", accept}};
  return quality_of(fields, type, subtype);
}

TEST(Accept, TheMostSpecificRangeDecides) {
  const char* accept = "text/*;q=0.3, text/csv;q=0.7, */*;q=0.5";
  EXPECT_EQ(quality(accept, "text", "csv"), 700);
  EXPECT_EQ(quality(accept, "text", "html"), 300);
  EXPECT_EQ(quality(accept, "application", "json"), 500);
  EXPECT_EQ(quality("*/*;q=0.5,text/csv;q=0", "text", "csv"), 0);
  EXPECT_EQ(quality("TEXT/CSV", "text", "csv"), 1000);
  EXPECT_EQ(quality("text/csv ; q=0.125", "text", "csv"), 125);
}

TEST(Accept, ParametersMustBeTheMediaTypesOwn) {
  const std::vector<Field> present{{"charset", "utf-8"}, {"header", "present"}};
  const std::vector<Field> absent{{"charset", "utf-8"}, {"header", "absent"}};
  const auto csv = [](std::string_view accept, const std::vector<Field>& parameters) {
    return quality_of(std::vector<Field>{{"Accept", accept}}, "text", "csv", parameters);
  };
  EXPECT_EQ(csv("text/csv;header=present;q=0.25", present), 250);
  EXPECT_EQ(csv("text/csv;header=present;q=0.25", absent), 0);
  EXPECT_EQ(csv("text/csv; Header=ABSENT", absent), 1000);
  EXPECT_EQ(csv("text/csv; header=\"absent\" ; charset=UTF-8", absent), 1000);
  EXPECT_EQ(csv("text/csv;q=0.25;header=absent", absent), 250) << "wherever the weight stands";
  EXPECT_EQ(csv("text/csv;charset=latin-1", present), 0);
  EXPECT_EQ(csv("text/csv;flavour=excel", present), 0);
  EXPECT_EQ(csv("text/csv;header", present), 0);
  EXPECT_EQ(csv("text/csv;header=", present), 0);
  EXPECT_EQ(csv("text/csv;;q=0.5;", present), 500);
  EXPECT_EQ(csv("text/csv;flavour=excel, */*;q=0.1", present), 100);
  // A range with more parameters is more specific.
  for (const char* accept : {"text/csv;q=0.5, text/csv;header=absent", "text/csv;header=absent, text/csv;q=0.5"}) {
    EXPECT_EQ(csv(accept, absent), 1000);
    EXPECT_EQ(csv(accept, present), 500);
  }
  EXPECT_EQ(csv("text/*;header=absent;q=0.1, text/csv", absent), 1000);
  EXPECT_EQ(csv("text/csv, text/csv;header=absent;q=0", absent), 0);
}

TEST(Accept, WhatIsNotNamedIsNotWanted) {
  EXPECT_EQ(quality("text/html", "application", "json"), 0);
  EXPECT_EQ(quality_of({}, "application", "json"), 1000);
  EXPECT_EQ(quality("", "application", "json"), 1000);
  EXPECT_EQ(quality("nonsense", "application", "json"), 1000) << "as if it were not there";
  EXPECT_EQ(quality("nonsense, text/csv", "application", "json"), 0);
  EXPECT_EQ(quality("text/csv;q=abc", "text", "csv"), 1000);
}

TEST(Accept, SeveralFieldsAreOneList) {
  const std::vector<Field> fields{{"accept", "text/csv;q=0.1"}, {"ACCEPT", "application/json;q=0.2"}};
  EXPECT_EQ(quality_of(fields, "text", "csv"), 100);
  EXPECT_EQ(quality_of(fields, "application", "json"), 200);
}

TEST(ListsToken, FindsTokensAmongOthers) {
  EXPECT_TRUE(lists_token("trailers", "trailers"));
  EXPECT_TRUE(lists_token("gzip;q=0.5, Trailers ;q=1", "trailers"));
  EXPECT_FALSE(lists_token("trailers2, xtrailers", "trailers"));
  EXPECT_FALSE(lists_token("", "trailers"));
}

}  // namespace
}  // namespace sluice::http
