#include "http/message.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

std::string text_of(const Response& response) { return std::string(std::get<Buffer>(response.body).view()); }

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

TEST(ReasonPhrase, RegisteredAndNot) {
  EXPECT_EQ(reason_phrase(200), "OK");
  EXPECT_EQ(reason_phrase(404), "Not Found");
  EXPECT_EQ(reason_phrase(413), "Content Too Large");
  EXPECT_EQ(reason_phrase(511), "Network Authentication Required");
  for (int status : {-1, 0, 99, 105, 209, 306, 418, 419, 427, 509, 512, 600}) EXPECT_EQ(reason_phrase(status), "");
  int registered = 0;
  for (int status = 0; status < 1000; ++status) registered += reason_phrase(status).empty() ? 0 : 1;
  EXPECT_EQ(registered, 62);
}

TEST(SameName, IgnoresTheCaseOfLettersOnly) {
  EXPECT_TRUE(same_name("", ""));
  EXPECT_TRUE(same_name("Content-Length", "cONTENT-lENGTH"));
  EXPECT_FALSE(same_name("Content-Length", "Content-Lengt"));
  EXPECT_FALSE(same_name("Host", "Hose"));
  EXPECT_FALSE(same_name("a^", "a~"));  // 0x5E and 0x7E differ in the bit that letters' case lies in
  EXPECT_FALSE(same_name("@", "`"));
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

TEST(Body, SizeWhereItIsKnown) {
  struct Nothing : BodySource {
    core::Async<Result<Progress>> pull(Buffer&) override { return Result<Progress>(Progress::done); }
  };
  Buffer bytes;
  bytes.append("12345");
  EXPECT_EQ(size_of(Body{}), 0u);
  EXPECT_EQ(size_of(Body{std::move(bytes)}), 5u);
  EXPECT_EQ(size_of(Body{SharedBytes{nullptr, "123"}}), 3u);
  SharedSpans spans(nullptr);
  spans.add("12");
  spans.add("345");
  EXPECT_EQ(size_of(Body{std::move(spans)}), 5u);
  EXPECT_EQ(size_of(Body{FileRange{nullptr, -1, 100, 7'000'000'000}}), 7'000'000'000u);
  EXPECT_EQ(size_of(Body{std::unique_ptr<BodySource>(new Nothing)}), std::nullopt);
}

TEST(FieldList, OwnedValuesSurviveMoves) {
  FieldList list;
  list.add("A", "static");
  for (int i = 0; i < 10; ++i) list.add_owned("B", "short " + std::to_string(i));
  FieldList moved(std::move(list));
  EXPECT_EQ(list.items().size(), 0u);
  FieldList assigned;
  assigned.add_owned("Z", "is dropped");
  assigned = std::move(moved);
  ASSERT_EQ(assigned.items().size(), 11u);
  EXPECT_EQ(assigned.get("a"), "static");
  EXPECT_EQ(assigned.get("b"), "short 0");
  EXPECT_EQ(assigned.items()[10].value, "short 9");
  EXPECT_EQ(assigned.get("z"), "");
}

TEST(Problem, Body) {
  const Response response = problem(404);
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.fields.get("content-type"), "application/problem+json");
  EXPECT_EQ(text_of(response), R"({"type":"about:blank","title":"Not Found","status":404})");
}

TEST(Problem, DetailIsEscaped) {
  EXPECT_EQ(text_of(problem(400, "a \"b\" \\ /\n\r\t\b\f\x01\x1f\x7f \xc3\xa9")),
            R"({"type":"about:blank","title":"Bad Request","status":400,"detail":"a \"b\" \\ /\n\r\t\b\f\u0001\u001f)"
            "\x7f \xc3\xa9\"}");
}

TEST(Problem, StatusWithoutAPhrase) {
  EXPECT_EQ(text_of(problem(599)), R"({"type":"about:blank","title":"","status":599})");
}

}  // namespace
}  // namespace sluice::http
