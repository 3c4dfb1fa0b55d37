#include "http/request.h"

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

TEST(Method, NamesReadBack) {
  for (Method method : {Method::get, Method::head, Method::post, Method::put, Method::delete_, Method::patch,
                        Method::options, Method::connect, Method::trace}) {
    EXPECT_FALSE(name_of(method).empty());
    EXPECT_EQ(parse_method(name_of(method)), method);
  }
  EXPECT_EQ(name_of(Method::other), "");
}

TEST(Method, AnythingElseIsOther) {
  for (const char* text : {"", "get", "Get", "GE", "GETS", "PURGE", "PROPFIND", "DELETED", "M-SEARCH"}) {
    EXPECT_EQ(parse_method(text), Method::other) << text;
  }
}

TEST(Request, FirstFieldOfAName) {
  const Field fields[] = {{"Accept", "text/csv"}, {"X-Empty", ""}, {"accept", "second"}};
  Request request;
  request.fields = fields;
  EXPECT_EQ(request.field("ACCEPT"), "text/csv");
  EXPECT_EQ(request.field("x-empty"), "");
  EXPECT_TRUE(request.has_field("x-empty"));
  EXPECT_EQ(request.field("missing"), "");
  EXPECT_FALSE(request.has_field("missing"));
}

}  // namespace
}  // namespace sluice::http
