#include "gateway/proxy/path_change.h"

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

// The changed path, or "refused" if it must not be forwarded.
std::string changed(const RouteOptions& options, std::string path) {
  const auto change = PathChange::make(options);
  EXPECT_TRUE(change.has_value());
  if (!change || !*change) return path;
  return (*change)->apply(path) ? path : "refused";
}

std::string stripped(std::string strip, std::string path) {
  RouteOptions options;
  options.strip.emplace(std::move(strip));
  return changed(options, std::move(path));
}

std::string rewritten(std::string match, std::string to, std::string path) {
  EXPECT_EQ(RewriteOptions::check_to(to), "");
  RouteOptions options;
  options.rewrite.emplace(RewriteOptions{.match = std::move(match), .to = std::move(to)});
  return changed(options, std::move(path));
}

TEST(PathChange, StripTakesTheBeginningOff) {
  EXPECT_EQ(stripped("/billing", "/billing/a/b"), "/a/b");
  EXPECT_EQ(stripped("/billing", "/billing"), "/");
  EXPECT_EQ(stripped("/billing", "/billing/"), "/");
  EXPECT_EQ(stripped("/a/b", "/a/b/c%2F"), "/c%2F");
  EXPECT_EQ(stripped("/über", "/%C3%BCber/x"), "/x");
  EXPECT_EQ(stripped("/@a+b", "/%40a%2Bb/x%2B"), "/x%2B");
  EXPECT_EQ(stripped("/a/b", "/a%2Fb/x"), "/a%2Fb/x");
}

TEST(PathChange, RewriteReplacesTheWholePathWhereItIsFound) {
  EXPECT_EQ(rewritten("^/v1/(.*)$", "/\\1", "/v1/a%2Fb"), "/a%2Fb");
  EXPECT_EQ(rewritten("^/(\\w+)/(\\d+)$", "/\\2/\\1/all", "/users/12"), "/12/users/all");
  EXPECT_EQ(rewritten("\\.php$", "/x\\0", "/a.php"), "/x.php");
  EXPECT_EQ(rewritten("^/v1/(.*)$", "/\\1", "/v2/a"), "/v2/a");
  EXPECT_EQ(rewritten("^/(a)?(b)?", "/\\2\\1", "/b"), "/b");
}

TEST(PathChange, ARewriteNeverLeadsElsewhere) {
  EXPECT_EQ(rewritten("^/a(.*)$", "/x/\\1", "/a.."), "refused");
  EXPECT_EQ(rewritten("^/a(.*)$", "/x/\\1", "/a..%2Fb"), "refused");
  EXPECT_EQ(rewritten("^/a(.*)$", "/\\1", "/a/b"), "refused");  // a path "//b" could be read as a host
  EXPECT_EQ(rewritten("^/a(.*)$", "\\1", "/a"), "refused");
}

TEST(PathChange, NothingLeavesTwoSlashesAtTheBeginning) {
  EXPECT_EQ(stripped("/app", "/app/%2Fevil.com"), "refused");
  EXPECT_EQ(stripped("/app", "/app/%5Cevil.com"), "refused");
  EXPECT_EQ(rewritten("^/app(.*)$", "\\1", "/app/%2Fevil.com"), "refused");
}

TEST(PathChange, WhatCannotWorkIsSaid) {
  RouteOptions options;
  options.rewrite.emplace(RewriteOptions{.match = Located<std::string>("("), .to = Located<std::string>("/")});
  ASSERT_FALSE(PathChange::make(options));
  EXPECT_TRUE(PathChange::make(options).error().starts_with("not a regular expression: "));
  options.rewrite.emplace(RewriteOptions{.match = Located<std::string>("^/(a)"), .to = Located<std::string>("/\\2")});
  EXPECT_FALSE(PathChange::make(options)) << "there is no such group";
  for (const char* bad : {"a", "", "/a?b", "/a#", "/a b", "/\\", "/\\x", "/\xc3\xbc"}) {
    EXPECT_NE(RewriteOptions::check_to(bad), "") << bad;
  }
}

}  // namespace
}  // namespace sluice::gateway
