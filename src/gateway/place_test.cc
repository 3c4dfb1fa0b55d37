#include "gateway/place.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

using In = Place::In;
using Count = FoundCredential::Count;

TEST(Place, Parse) {
  EXPECT_EQ(Place::parse("header.X-Token"), (Place{In::header, "x-token"}));
  EXPECT_EQ(Place::parse("cookie.session"), (Place{In::cookie, "session"}));
  EXPECT_NE(Place::parse("cookie.session"), (Place{In::cookie, "Session"}));
  EXPECT_EQ(Place::parse("query.a.b"), (Place{In::query, "a.b"}));
  EXPECT_TRUE(Place::parse("header.AUTHORIZATION")->is_authorization());
  EXPECT_FALSE(Place::parse("query.authorization")->is_authorization());
  for (const char* bad : {"", "header", "header.", "header.a b", "cookie.", "cookie.a=b", "query.", "query.a b",
                          "query.\xc3\xa4", "Header.a", "body.a", ".a", "authorization"}) {
    EXPECT_FALSE(Place::parse(bad)) << bad;
  }
}

TEST(FindCredential, TheSameAndOthers) {
  const auto find = [](In in, std::vector<http::Field> fields, std::string_view query = {}) {
    http::Request request;
    request.fields = fields;
    request.query = query;
    std::string scratch;
    const FoundCredential found = find_credential({in, "k"}, request, scratch);
    return std::pair(found.count, std::string(found.text));
  };
  EXPECT_EQ(find(In::header, {{"A", "b"}}), std::pair(Count::none, std::string()));
  EXPECT_EQ(find(In::header, {{"K", "a"}}), std::pair(Count::one, std::string("a")));
  EXPECT_EQ(find(In::header, {{"K", "a"}, {"k", "a"}}), std::pair(Count::repeated, std::string("a")));
  EXPECT_EQ(find(In::header, {{"K", "a"}, {"k", "b"}}).first, Count::several);
  EXPECT_EQ(find(In::header, {{"K", "a"}, {"k", "b"}, {"k", "a"}}).first, Count::several);
  EXPECT_EQ(find(In::cookie, {{"Cookie", "k=a; b=c; k=\"a\""}}), std::pair(Count::repeated, std::string("a")));
  EXPECT_EQ(find(In::cookie, {{"Cookie", "k=a"}, {"Cookie", "k="}}).first, Count::several);
  EXPECT_EQ(find(In::query, {}, "k=%61&x=1&k=%61"), std::pair(Count::repeated, std::string("a")));
  EXPECT_EQ(find(In::query, {}, "k=a&%6b=b").first, Count::several);
  EXPECT_EQ(find(In::query, {}, "k=a%6"), std::pair(Count::one, std::string()));
}

}  // namespace
}  // namespace sluice::gateway
