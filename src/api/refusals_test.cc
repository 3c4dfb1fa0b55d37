#include "api/refusals.h"

#include <vector>

#include <gtest/gtest.h>

#include "api/writing_fixture.h"

namespace sluice::api {
namespace {

TEST(Refusals, OfRowsSayWhereAndWhy) {
  const std::vector<RowFault> faults{{.line = 3, .row = 2, .pointer = "/2/slug", .reason = "is missing"},
                                     {.line = 4, .row = 3, .pointer = "a\"b", .reason = "no \\ \n"}};
  const http::Response refused = refuse_rows(faults);
  EXPECT_EQ(refused.status, 422);
  EXPECT_TRUE(
      testing::body_of(refused).contains(R"("errors":[{"line":3,"row":2,"pointer":"/2/slug","detail":"is missing"},)"
                                         R"({"line":4,"row":3,"pointer":"a\"b","detail":"no \\ \n"}])"))
      << testing::body_of(refused);
  EXPECT_EQ(refuse_unreadable(faults).status, 400);
  EXPECT_TRUE(testing::body_of(refuse_unreadable({})).contains(R"("errors":[])"));
}

TEST(Refusals, OfBodies) {
  EXPECT_EQ(refuse_type().status, 415);
  EXPECT_TRUE(testing::body_of(refuse_type()).contains("application/json"));
  EXPECT_EQ(refuse_length().status, 413);
  EXPECT_EQ(refuse_body({Errc::limit}).status, 413);
  EXPECT_EQ(refuse_body({Errc::timed_out}).status, 408);
  EXPECT_EQ(refuse_body({Errc::closed}).status, 400);
}

TEST(Refusals, ALengthThatIsAnnounced) {
  const auto announces = [](std::vector<http::Field> fields) {
    http::Request request;
    request.fields = fields;
    return announces_more(request, 100);
  };
  EXPECT_FALSE(announces({}));
  EXPECT_FALSE(announces({{"Content-Length", "100"}}));
  EXPECT_TRUE(announces({{"Content-Length", "101"}}));
  EXPECT_TRUE(announces({{"Content-Length", "18446744073709551615"}}));
}

}  // namespace
}  // namespace sluice::api
