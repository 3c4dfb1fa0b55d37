#include "http/response.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

std::string text_of(const Response& response) { return std::string(std::get<Buffer>(response.body).view()); }

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
