#include "http/compress/media_types.h"

#include <gtest/gtest.h>

#include "http/compress/options.h"

namespace sluice::http::compress {
namespace {

TEST(MediaTypes, MatchesByTypeByClassAndBySuffix) {
  const std::vector<std::string> patterns{"text/*", "application/json", "application/*+json", "image/svg+xml"};
  const MediaTypes types(patterns);
  for (const char* type :
       {"text/html", "text/csv; charset=utf-8", "TEXT/Plain", "application/json", "Application/JSON ;q",
        "application/problem+json", "application/vnd.api+json;v=1", "image/svg+xml"}) {
    EXPECT_TRUE(types.matches(type)) << type;
  }
  for (const char* type :
       {"", "text", "text/", "texts/html", "application/jsonp", "application/+json", "application/json5", "image/svg",
        "image/png", "xapplication/json", ";text/html", "application/json x"}) {
    EXPECT_FALSE(types.matches(type)) << type;
  }
}

TEST(MediaTypes, TheDefaultsLeaveOutWhatIsCompressedAlready) {
  const MediaTypes types(Options{}.types);
  for (const char* type :
       {"text/html; charset=utf-8", "text/javascript", "application/json", "application/problem+json",
        "application/x-ndjson", "application/csj", "text/csv", "image/svg+xml", "application/wasm",
        "application/manifest+json", "font/ttf", "text/event-stream"}) {
    EXPECT_TRUE(types.matches(type)) << type;
  }
  for (const char* type : {"image/png", "image/jpeg", "video/mp4", "audio/mpeg", "font/woff2", "application/zip",
                           "application/gzip", "application/octet-stream", "application/pdf"}) {
    EXPECT_FALSE(types.matches(type)) << type;
  }
}

TEST(MediaTypes, PatternsAreChecked) {
  for (const std::string& pattern : Options{}.types) EXPECT_EQ(Options::check_type(pattern), "") << pattern;
  for (const char* pattern : {"text/*", "application/*+json", "application/vnd.api+json", "a/b"}) {
    EXPECT_EQ(Options::check_type(pattern), "") << pattern;
  }
  for (const char* pattern : {"", "text", "*", "*/*", "text/", "/html", "te*t/html", "text/h*", "text/*+", "text/*json",
                              "text/html; charset=utf-8", "text/a/b", "text/a b", "text/a+", "text/+a"}) {
    EXPECT_NE(Options::check_type(pattern), "") << pattern;
  }
}

}  // namespace
}  // namespace sluice::http::compress
