#include "api/role.h"

#include <gtest/gtest.h>

#include "http/identity.h"
#include "http/request_id.h"

namespace sluice::api {
namespace {

std::shared_ptr<const RolePlan> plan_of(const char* role, const char* anonymous = "") {
  sql::DatabaseOptions options;
  if (role != nullptr) options.role = Located<std::string>(role);
  options.anonymous_role = anonymous;
  return role_plan(options);
}

struct Asked final : http::Exchange {
  explicit Asked(std::string_view claims = {}) {
    request.method_text = "GET";
    request.path = "/a b";
    request.peer = "192.0.2.7";
    if (!claims.empty()) attributes.set(http::Identity{.claims = http::Claims::parse(claims)});
  }
};

std::string role_of(const char* role, const char* anonymous, std::string_view claims) {
  const auto settings = settings_of(*plan_of(role, anonymous), Asked(claims));
  if (!settings) return std::to_string(settings.error().status);
  EXPECT_EQ((*settings)[0].name, "role");
  return (*settings)[0].value;
}

TEST(Role, IsOfTheClaimOrAnonymous) {
  EXPECT_EQ(plan_of(nullptr), nullptr);
  EXPECT_EQ(role_of("claim.role", "", R"({"role":"member"})"), "member");
  EXPECT_EQ(role_of("claim.app.role", "guest", R"({"app":{"role":"member"}})"), "member");
  EXPECT_EQ(role_of("claim.role", "guest", "{}"), "guest");
  EXPECT_EQ(role_of("claim.role", "guest", ""), "guest");
  EXPECT_EQ(role_of("claim.role", "guest", R"({"role":null})"), "guest");
  EXPECT_EQ(role_of(nullptr, "guest", R"({"role":"member"})"), "guest");
  EXPECT_EQ(role_of("env.NO_SUCH_VARIABLE", "guest", ""), "guest");
}

TEST(Role, IsNeverTheLogins) {
  EXPECT_EQ(role_of("claim.role", "", "{}"), "403");
  EXPECT_EQ(role_of("claim.role", "", ""), "403");
  EXPECT_EQ(role_of("claim.role", "guest", R"({"role":"none"})"), "403");
  EXPECT_EQ(role_of("claim.role", "guest", R"({"role":""})"), "403");
  EXPECT_EQ(role_of("claim.role", "guest", "{\"role\":\"a\\u0000\"}"), "403");
}

TEST(Role, ComesWithWhatStatementsMayAsk) {
  const std::string payload = R"({"a":{"b":[1.5,"x"]},"n":null,"sub":"\"\\\u0001ä"})";
  const auto settings = settings_of(*plan_of(nullptr, "guest"), Asked(payload));
  ASSERT_TRUE(settings);
  ASSERT_EQ(settings->size(), 6u);
  EXPECT_EQ((*settings)[1].name, "request.jwt.claims");
  EXPECT_EQ((*settings)[1].value, payload);
  EXPECT_EQ((*settings)[2].value, "GET");
  EXPECT_EQ((*settings)[3].value, "/a b");
  EXPECT_EQ((*settings)[4].name, "request.client_address");
  EXPECT_EQ((*settings)[4].value, "192.0.2.7");
  EXPECT_EQ((*settings)[5].name, "request.id");
  EXPECT_EQ((*settings)[5].value, "");
  Asked odd;
  odd.request.path = "/\xff";
  const auto refused = settings_of(*plan_of(nullptr, "guest"), odd);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 400);
}

TEST(Role, SettingsNeedNone) {
  sql::DatabaseOptions options;
  options.settings = {{{"TimeZone"}, {.from = {"header.time-zone"}}},
                      {{"app.user"}, {.from = {"claim.sub"}}},
                      {{"app.id"}, {.from = {"request.id"}}}};
  const auto plan = role_plan(options);
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->takes_role());
  Asked asked(R"({"sub":"ada"})");
  http::Request& request = asked.request;
  const std::vector<http::Field> fields = {{"Time-Zone", "Asia/Tokyo"}};
  request.fields = fields;
  const auto text_of = [&] {
    const auto settings = settings_of(*plan, asked);
    if (!settings) return std::to_string(settings.error().status);
    std::string text;
    for (const auto& [name, value] : *settings) text += name + "=" + value + ";";
    return text;
  };
  const std::string own = "request.method=GET;request.path=/a b;request.client_address=192.0.2.7;request.id=";
  asked.attributes.set(http::RequestId{"a-1"});
  EXPECT_EQ(text_of(),
            "request.jwt.claims={\"sub\":\"ada\"};" + own + "a-1;TimeZone=Asia/Tokyo;app.user=ada;app.id=a-1;");
  request.fields = {};
  asked.attributes.clear();
  EXPECT_EQ(text_of(), "request.jwt.claims=;" + own + ";app.user=;app.id=;");
  const std::vector<http::Field> odd = {{"Time-Zone", "\xff"}};
  request.fields = odd;
  EXPECT_EQ(text_of(), "400");
}

TEST(Role, SettingsThatAreRefused) {
  EXPECT_EQ(check_setting("TimeZone", "header.time-zone"), "");
  EXPECT_EQ(check_setting("app.user", "claim.sub"), "");
  EXPECT_EQ(check_setting("application_name", "request.id"), "");
  for (const char* name :
       {"", "a b", "a;b", "a'b", "role", "ROLE", "session_authorization", "request.path", "Request.x"}) {
    EXPECT_NE(check_setting(name, "claim.sub"), "") << name;
  }
  for (const char* source : {"query.zone", "path.zone", "body.zone", "zone", "upload"}) {
    EXPECT_NE(check_setting("TimeZone", source), "") << source;
  }
}

TEST(Role, SourcesThatClientsChooseAreRefused) {
  for (const char* good : {"claim.role", "header.x-role", "env.ROLE"}) EXPECT_EQ(check_role(good), "");
  for (const char* bad : {"query.role", "path.role", "cookie.role", "body.role", "body", "claim", "role", ""}) {
    EXPECT_NE(check_role(bad), "") << bad;
  }
}

}  // namespace
}  // namespace sluice::api
