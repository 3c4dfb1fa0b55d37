#include "gateway/cors/policy.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway::cors {
namespace {

class CorsPolicyTest : public testing::Test {
 protected:
  // The fields of the answer to a request or to a preflight request, one per line.
  std::string answer(std::vector<http::Field> fields) {
    CorsPolicy asked(options);
    http::Exchange exchange;
    exchange.request.fields = fields;
    http::Slot slot;
    EXPECT_FALSE(asked.before(exchange, slot).take());
    http::Response response;
    for (const auto& [name, value] : answered) response.fields.add(name, value);
    asked.after(exchange, slot, response);
    return lines(response);
  }
  std::string preflight(std::vector<http::Field> fields) {
    CorsPolicy asked(options);
    http::Exchange exchange;
    exchange.request.fields = fields;
    exchange.allow = "GET, HEAD, PUT, OPTIONS";
    const auto response = asked.preflight(exchange);
    EXPECT_EQ(response->status, 204);
    return lines(*response);
  }
  std::string of(const char* origin) { return answer({{"Origin", origin}}); }

  Options options;
  std::vector<http::Field> answered;  // the fields of the handler's response

 private:
  static std::string lines(const http::Response& response) {
    std::string all;
    for (const auto& [name, value] : response.fields.items())
      all += std::string(name) + ": " + std::string(value) + "\n";
    return all;
  }
};

TEST_F(CorsPolicyTest, WhatAServerBehindSaysOfOriginsIsReplaced) {
  options.origins = {{"https://app.example"}};
  options.expose.clear();
  answered = {{"Access-Control-Allow-Origin", "*"}, {"X-Other", "o"}, {"access-control-expose-headers", "X-Other"}};
  EXPECT_EQ(of("https://app.example"), "X-Other: o\nVary: Origin\nAccess-Control-Allow-Origin: https://app.example\n");
  EXPECT_EQ(of("https://evil.example"), "X-Other: o\nVary: Origin\n");
  answered = {{"Vary", "Origin,  Accept,"}, {"Access-Control-Allow-Credentials", "true"}, {"vary", "Cookie, ACCEPT"}};
  EXPECT_EQ(of("https://evil.example"), "Vary: Origin, Accept, Cookie\n");
}

TEST_F(CorsPolicyTest, OneOrigin) {
  options.origins = {{"https://app.example"}, {"http://localhost:5173"}};
  options.expose = {"ETag", "Age"};
  EXPECT_EQ(
      of("https://app.example"),
      "Vary: Origin\nAccess-Control-Allow-Origin: https://app.example\nAccess-Control-Expose-Headers: ETag, Age\n");
  EXPECT_EQ(
      of("http://localhost:5173"),
      "Vary: Origin\nAccess-Control-Allow-Origin: http://localhost:5173\nAccess-Control-Expose-Headers: ETag, Age\n");
  for (const char* other : {"http://app.example", "https://app.example:444", "https://app.example.evil.example", "null",
                            "", "https://xapp.example", "HTTPS://APP.EXAMPLE", "https://a.app.example"}) {
    EXPECT_EQ(of(other), "Vary: Origin\n") << other;
  }
  EXPECT_EQ(answer({}), "Vary: Origin\n");
  EXPECT_EQ(answer({{"Origin", "https://app.example"}, {"origin", "https://app.example"}}), "Vary: Origin\n");
}

TEST_F(CorsPolicyTest, AllHostsBelowOne) {
  options.origins = {{"https://*.app.example:8443"}};
  options.expose = {};
  options.credentials = true;
  for (const char* good : {"https://a.app.example:8443", "https://a-b.c.app.example:8443"}) {
    EXPECT_EQ(of(good), "Vary: Origin\nAccess-Control-Allow-Origin: " + std::string(good) +
                            "\nAccess-Control-Allow-Credentials: true\n");
  }
  for (const char* bad : {"https://app.example:8443", "https://.app.example:8443", "https://a.app.example",
                          "https://evil.example/.app.example:8443", "https://evil.example:1.app.example:8443",
                          "http://a.app.example:8443", "https://u@a.app.example:8443"}) {
    EXPECT_EQ(of(bad), "Vary: Origin\n") << bad;
  }
}

TEST_F(CorsPolicyTest, AnyOriginNeedsNoVary) {
  options.origins = {{"*"}};
  options.expose = {};
  EXPECT_EQ(of("https://app.example"), "Access-Control-Allow-Origin: *\n");
  EXPECT_EQ(answer({}), "Access-Control-Allow-Origin: *\n");
}

TEST_F(CorsPolicyTest, Preflight) {
  options.origins = {{"https://app.example"}};
  const http::Field origin{"Origin", "https://app.example"};
  const std::string vary = "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\n";
  const std::string methods = "Access-Control-Allow-Methods: GET, HEAD, PUT, OPTIONS\n";
  const std::string allowed = "Access-Control-Allow-Origin: https://app.example\n" + vary + methods;
  EXPECT_EQ(preflight({origin}), allowed + "Access-Control-Max-Age: 600\n");
  EXPECT_EQ(preflight({origin, {"access-control-request-headers", "authorization,x-a"}}),
            allowed + "Access-Control-Allow-Headers: authorization,x-a\nAccess-Control-Max-Age: 600\n");
  EXPECT_EQ(preflight({origin, {"access-control-request-headers", "a;b"}}), allowed + "Access-Control-Max-Age: 600\n");
  EXPECT_EQ(preflight({{"Origin", "https://other.example"}}), vary);
  options.headers = {"If-Match", "Authorization"};
  options.max_age = 0s;
  EXPECT_EQ(preflight({origin, {"access-control-request-headers", "x-a"}}),
            allowed + "Access-Control-Allow-Headers: If-Match, Authorization\nAccess-Control-Max-Age: 0\n");
}

}  // namespace
}  // namespace sluice::gateway::cors
