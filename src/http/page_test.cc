#include "http/page.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

Response answer(const std::shared_ptr<const Page>& page, const std::vector<Field>& fields = {}) {
  Request request;
  request.fields = fields;
  return page->answer(request);
}

TEST(Page, AClientThatHasItGetsNoBody) {
  const auto page = Page::json("{}");
  const std::string tag(answer(page).fields.get("ETag"));
  const std::string weak = "W/" + tag;
  const std::string listed = "\"x\" ,\t" + tag + ", \"y\"";
  const auto status = [&](const std::vector<Field>& fields) { return answer(page, fields).status; };
  EXPECT_EQ(status({}), 200);
  EXPECT_EQ(status({{"If-None-Match", tag}}), 304);
  EXPECT_EQ(status({{"if-none-match", weak}}), 304);
  EXPECT_EQ(status({{"if-none-match", listed}}), 304);
  EXPECT_EQ(status({{"if-none-match", "\"x\""}, {"if-none-match", tag}}), 304);
  EXPECT_EQ(status({{"if-none-match", "*"}}), 304);
  EXPECT_EQ(status({{"if-none-match", "\"x\""}, {"if-none-match", "*"}}), 400);
  EXPECT_EQ(status({{"if-none-match", "\"x\", "}}), 200);
  EXPECT_NE(answer(Page::json("{} ")).fields.get("ETag"), tag);
}

TEST(Page, OnlyAWebPageHasAPolicy) {
  const Response json = answer(Page::json("{}"));
  EXPECT_EQ(json.fields.get("Content-Type"), "application/json");
  EXPECT_EQ(json.fields.get("Content-Security-Policy"), "");
  const Response html = answer(Page::html("<p>"));
  EXPECT_EQ(html.fields.get("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(html.fields.get("X-Content-Type-Options"), "nosniff");
  EXPECT_TRUE(html.fields.get("Content-Security-Policy").contains("script-src 'none'; style-src 'none';"));
}

// The hashes are those that `printf 'alert(1)' | openssl dgst -sha256 -binary | base64` prints.
TEST(Page, ThePolicyAllowsThePagesOwnElements) {
  const Response html = answer(Page::html("<style>p{}</style><script>alert(1)</script><script></script>"));
  const std::string_view policy = html.fields.get("Content-Security-Policy");
  EXPECT_TRUE(
      policy.contains("script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=' "
                      "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=';"));
  EXPECT_TRUE(policy.contains("style-src 'sha256-gG2yISYereRMiG2lMXrbiUgi0Ubw9p7QCeWcroOvy9Y=';"));
}

}  // namespace
}  // namespace sluice::http
