#include "http/redirect.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

struct Target final : Handler {
  core::Async<Response> handle(Exchange&) override { return Response{.status = 204, .fields = {}, .body = {}}; }
};

std::string answer(Method method, std::string_view authority, std::string_view target, std::uint16_t port = 443,
                   std::string_view path = "/") {
  Target next;
  HttpsRedirect redirect(next);
  redirect.set_port(port);
  Exchange exchange;
  Request& request = exchange.request;
  request.method = method;
  request.authority = authority;
  request.target = target;
  request.path = path;
  const Response response = redirect.handle(exchange).take();
  return std::to_string(response.status) + " " + std::string(response.fields.get("Location"));
}

TEST(HttpsRedirect, KeepsHostAndTarget) {
  EXPECT_EQ(answer(Method::get, "example.org", "/a%20b?c=d"), "301 https://example.org/a%20b?c=d");
  EXPECT_EQ(answer(Method::head, "example.org:8080", "/"), "301 https://example.org/");
  EXPECT_EQ(answer(Method::post, "example.org", "/", 8443), "308 https://example.org:8443/");
  EXPECT_EQ(answer(Method::delete_, "[::1]:80", "/x", 8443), "308 https://[::1]:8443/x");
  EXPECT_EQ(answer(Method::get, "[::1]", "/x"), "301 https://[::1]/x");
}

TEST(HttpsRedirect, AnAbsoluteTargetHasItsPathBehindTheAuthority) {
  EXPECT_EQ(answer(Method::get, "example.org:8080", "http://example.org:8080/a%20b?c=d"),
            "301 https://example.org/a%20b?c=d");
  EXPECT_EQ(answer(Method::post, "[::1]:80", "HTTP://[::1]:80/x", 8443), "308 https://[::1]:8443/x");
  EXPECT_EQ(answer(Method::get, "example.org", "http://example.org"), "301 https://example.org/");
  EXPECT_EQ(answer(Method::get, "example.org", "http://example.org?c=/d"), "301 https://example.org/?c=/d");
  EXPECT_EQ(answer(Method::get, "example.org", "/a?b=c://d/e"), "301 https://example.org/a?b=c://d/e");
}

TEST(HttpsRedirect, LetsQuestionsAboutTheServerThrough) {
  EXPECT_EQ(answer(Method::options, "example.org", "*", 443, "*"), "204 ");
  EXPECT_EQ(answer(Method::options, "example.org", "http://example.org", 443, "*"), "204 ");
  EXPECT_EQ(answer(Method::options, "", "*", 443, "*"), "204 ");
}

TEST(HttpsRedirect, DoesNotKnowWhereToWithoutAHost) {
  EXPECT_EQ(answer(Method::get, "", "/"), "400 ");
  EXPECT_EQ(answer(Method::get, ":80", "/"), "400 ");
  EXPECT_EQ(answer(Method::connect, "example.org:443", "example.org:443", 443, ""), "400 ");
}

TEST(HttpsRedirect, LetsTlsThrough) {
  Target next;
  HttpsRedirect redirect(next);
  Exchange exchange;
  Request& request = exchange.request;
  request.secure = true;
  EXPECT_EQ(redirect.handle(exchange).take().status, 204);
}

}  // namespace
}  // namespace sluice::http
