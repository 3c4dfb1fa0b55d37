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
  std::vector<RowFault> broken = faults;
  broken[1].is_syntax = true;
  EXPECT_EQ(refuse_rows(broken).status, 400) << "of the rows one is no JSON at all";
  EXPECT_TRUE(testing::body_of(refuse_unreadable({})).contains(R"("errors":[])"));
}

TEST(Refusals, OfBodies) {
  EXPECT_EQ(refuse_type(http::Method::put, {}).status, 415);
  EXPECT_TRUE(testing::body_of(refuse_type(http::Method::put, {})).contains("text/csv"));
  EXPECT_EQ(refuse_length().status, 413);
  EXPECT_EQ(refuse_body({Errc::limit}).status, 413);
  EXPECT_EQ(refuse_body({Errc::timed_out}).status, 408);
  EXPECT_EQ(refuse_body({Errc::closed}).status, 400);
}

TEST(Refusals, OfABodyWhereNoneIsTaken) {
  struct Answering final : http::Handler {
    core::Async<http::Response> handle(http::Exchange& exchange) override {
      EXPECT_EQ(exchange.request.body, nullptr);
      http::Response response;
      response.status = 204;
      return response;
    }
  } handler;
  const auto reactor = core::make_epoll_reactor();
  const auto status = [&](std::string_view bytes, std::size_t step = SIZE_MAX, std::optional<Errc> broken = {}) {
    testing::Body body(bytes, step, broken);
    http::Exchange exchange;
    exchange.request.body = &body;
    return testing::answer_of(*reactor, handle_without_body(exchange, handler)).status;
  };
  EXPECT_EQ(status(""), 204);
  EXPECT_EQ(status("{}"), 204);
  EXPECT_EQ(status("{}", 1), 204);
  for (const std::string_view bytes : {"[]", "{", "{} ", "{}{}", R"({"a":1})", "a=1"}) {
    EXPECT_EQ(status(bytes), 400) << bytes;
    EXPECT_EQ(status(bytes, 1), 400) << bytes;
  }
  EXPECT_EQ(status("", SIZE_MAX, Errc::timed_out), 408);
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
