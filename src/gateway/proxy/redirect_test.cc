#include "gateway/proxy/redirect.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

// The Location for `segments`, in which a NUL stands for an encoded slash. {rest} begins at `from`.
std::string location(std::string to, std::string_view segments, std::size_t from, std::string_view query = {}) {
  EXPECT_EQ(RedirectOptions::check_to(to), "");
  auto redirect = Redirect::make({.to = std::move(to)}, {"rest"});
  if (!redirect) return redirect.error();
  std::string path(segments);
  std::ranges::replace(path, '\0', '/');
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.path = path;
  request.segments = segments;
  request.query = query;
  request.path_values[0] = std::string_view(path).substr(from);
  const http::Response response = redirect->handle(exchange).take();
  if (response.status != 307) return std::to_string(response.status);
  return std::string(response.fields.get("location"));
}

TEST(Redirect, KeepsPathAndQuery) {
  EXPECT_EQ(location("https://www.example.com/{rest}", "/old/a/b c", 5), "https://www.example.com/a/b%20c");
  EXPECT_EQ(location("/new/{rest}/", "/old/a", 5, "x=1&y"), "/new/a/?x=1&y");
  EXPECT_EQ(location("/new?from={rest}", "/old/a", 5, "x=1"), "/new?from=a");
  EXPECT_EQ(location("/new#{rest}", "/old/a", 5, "x=1"), "/new?x=1#a");
  EXPECT_EQ(location("https://example.com", "/old/a", 5), "https://example.com");
}

TEST(Redirect, DataStaysData) {
  using namespace std::string_view_literals;
  EXPECT_EQ(location("/{rest}", "/\0evil.example"sv, 1), "/%2Fevil.example");
  EXPECT_EQ(location("/{rest}", "/\\evil.example", 1), "/%5Cevil.example");
  EXPECT_EQ(location("/a/{rest}", "/..\0..\0b"sv, 1), "400");
  EXPECT_EQ(location("/a/{rest}", "/?#", 1), "/a/%3F%23");
  EXPECT_EQ(location("/a?b={rest}", "/c&d=e+f/g", 1), "/a?b=c%26d%3De%2Bf%2Fg");
}

TEST(Redirect, WhatCannotWorkIsSaid) {
  for (const char* bad : {"", "a", "//evil.example", "ftp://a", "https://", "https:///a", "https://{rest}.example/",
                          "https://user@a/", "/a b", "/\xc3\xbc", "/a\\b"}) {
    EXPECT_NE(RedirectOptions::check_to(bad), "") << bad;
  }
  EXPECT_FALSE(Redirect::make({.to = "/{other}"}, {"rest"}));
  EXPECT_FALSE(Redirect::make({.to = "/{rest"}, {"rest"}));
}

}  // namespace
}  // namespace sluice::gateway
