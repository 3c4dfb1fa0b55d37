#include "gateway/headers/policy.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "http/identity.h"
#include "http/request_id.h"

namespace sluice::gateway::headers {
namespace {

using Source = Template::Source;

TEST(TemplateTest, IsReadStrictly) {
  for (const char* good :
       {"", "text", "{claim.sub}", "a {claim.a.b} b {client.ip}{request.id}", "{{\"a\":1}}", "a\tb", "{path.x}"}) {
    EXPECT_TRUE(Template::parse(good)) << good;
  }
  for (const char* bad : {"{", "}", "a{b", "{}", "{claim.}", "{claim}", "{path.}", "{path}", "{sub}", "{client.ip",
                          "{ client.ip}", "{{}", "{}}", "a\r\nX: b", "a\n", "a\r", "\x7f"}) {
    EXPECT_FALSE(Template::parse(bad)) << bad;
  }
  EXPECT_FALSE(Template::parse(std::string_view("a\0b", 3)));
  EXPECT_EQ(Template::parse("{{\"a\":1}}")->constant(), "{\"a\":1}");
  EXPECT_EQ(Template::parse("")->constant(), "");
  EXPECT_FALSE(Template::parse("{claim.sub}")->constant());
  EXPECT_TRUE(Template::parse("a{request.id}")->uses(Source::request_id));
  EXPECT_FALSE(Template::parse("a{request.id}")->uses(Source::claim));
}

TEST(MayChange, NotWhatFramesAMessage) {
  for (const char* name :
       {"Content-Length", "transfer-encoding", "CONNECTION", "Upgrade", "TE", "Trailer", "Keep-Alive"}) {
    EXPECT_FALSE(may_change_in_request(name) || may_change_in_response(name)) << name;
  }
  for (const char* name : {"Host", "X-Forwarded-For", "x-forwarded-anything", "Forwarded", "Expect", "X_Forwarded_For",
                           "Content_Length"}) {
    EXPECT_FALSE(may_change_in_request(name)) << name;
  }
  for (const char* name : {"Authorization", "X-User", "X-Real-IP"}) EXPECT_TRUE(may_change_in_request(name)) << name;
  EXPECT_TRUE(may_change_in_response("Cache-Control") && may_change_in_response("X-User"));
}

std::vector<Named<ValueOptions>> fields(std::initializer_list<std::pair<const char*, const char*>> list) {
  std::vector<Named<ValueOptions>> made;
  for (const auto& [name, value] : list) made.push_back({.name = {name}, .value = {.value = {value}}});
  return made;
}

class HeadersPolicyTest : public testing::Test {
 protected:
  ~HeadersPolicyTest() override { end(); }
  void begin(std::vector<http::Field> with, const char* claims = nullptr) {
    if (policy == nullptr) {
      policy = std::make_unique<HeadersPolicy>(options);
      policy->used_by(1, *http::Pattern::parse("/{id:int}/{tenant}"));
      policy->used_by(3, *http::Pattern::parse("/{tenant}"));
    }
    end();
    exchange.emplace();
    received = std::move(with);
    http::Request& request = exchange->request;
    request.route = route;
    request.path_values = path_values;
    request.fields = received;
    request.peer = "1.2.3.4";
    request.from_proxy = from_proxy;
    if (claims != nullptr) exchange->attributes.set(http::Identity{.claims = http::Claims::parse(claims)});
    slot = {};
    answer = policy->before(*exchange, slot).take();
  }
  std::string request(std::vector<http::Field> with, const char* claims = nullptr) {
    begin(std::move(with), claims);
    EXPECT_FALSE(answer);
    return lines(exchange->request.fields);
  }
  std::string response(std::initializer_list<http::Field> with) {
    http::Response response;
    for (const auto& [name, value] : with) response.fields.add(name, value);
    policy->after(*exchange, slot, response);
    return lines(response.fields.items());
  }
  void end() {
    if (exchange) policy->ended(*exchange, slot, {});
    exchange.reset();
  }
  static std::string lines(std::span<const http::Field> all) {
    std::string text;
    for (const auto& [name, value] : all) text += std::string(name) + ": " + std::string(value) + "\n";
    return text;
  }

  Options options;
  bool from_proxy = false;
  std::uint16_t route = 0;
  std::array<std::string_view, http::Request::max_path_values> path_values;
  std::unique_ptr<HeadersPolicy> policy;
  std::optional<http::Exchange> exchange;
  http::Slot slot;
  std::vector<http::Field> received;
  std::optional<http::Response> answer;
};

TEST_F(HeadersPolicyTest, ChangesARequest) {
  options.request = {.set = fields({{"X-User", "{claim.sub}"}, {"X-Tenant", "t-{claim.app.tenant}"}}),
                     .add = fields({{"X-A", "2"}, {"X-Client", " {client.ip} "}}),
                     .remove = {{"X-Debug"}, {"cookie"}},
                     .position = {}};
  EXPECT_EQ(
      request({{"x-user", "root"}, {"X-USER", "admin"}, {"X-A", "1"}, {"x-debug", "1"}, {"Cookie", "a=b"}, {"B", "c"}},
              R"({"sub":"ada","app":{"tenant":7}})"),
      "X-A: 1\nB: c\nX-User: ada\nX-Tenant: t-7\nX-A: 2\nX-Client: 1.2.3.4\n");
  EXPECT_EQ(request({{"X-User", "root"}}), "X-Tenant: t-\nX-A: 2\nX-Client: 1.2.3.4\n")
      << "what the client says of itself does not pass where there is no claim";
  EXPECT_EQ(response({{"A", "b"}}), "A: b\n");
}

TEST_F(HeadersPolicyTest, AClientCannotTakeOffWhatIsSet) {
  options.request_id = true;
  options.request.emplace().set = fields({{"X-User", "{claim.sub}"}});
  const std::string passed =
      request({{"Connection", "X-User, X-Request-Id"}, {"Other", "o"}, {"X-User", "root"}}, R"({"sub":"ada"})");
  EXPECT_TRUE(passed.starts_with("Connection: X-User, X-Request-Id\nOther: o\nX-User: ada\nX-Request-Id: ")) << passed;
  EXPECT_EQ(exchange->request.own_fields, 2u) << "those that ForwardedRequest passes on in any case";
}

TEST_F(HeadersPolicyTest, ANameThatOthersReadAsTheSameIsTheSame) {
  options.request.emplace().set = fields({{"X-User", "{claim.sub}"}});
  options.request->remove = {{"X-Debug"}};
  EXPECT_EQ(request({{"X_User", "root"}, {"x_debug", "1"}, {"X_Other", "o"}}, R"({"sub":"ada"})"),
            "X_Other: o\nX-User: ada\n");
  for (const char* name : {"X_USER", "X.User", "x!user", "X|User"}) EXPECT_EQ(request({{name, "root"}}), "") << name;
}

TEST_F(HeadersPolicyTest, NothingEndsALine) {
  options.request = {.set = fields({{"X-User", "{claim.sub}"}}), .add = {}, .remove = {}, .position = {}};
  options.response = {.set = fields({{"X-User", "{claim.sub}"}}), .add = {}, .remove = {}, .position = {}};
  for (const char* bad :
       {R"({"sub":"a\r\nX-Admin: 1"})", R"({"sub":"a\nb"})", R"({"sub":"a\u0000b"})", R"({"sub":"\u007f"})"}) {
    begin({{"X-User", "root"}}, bad);
    ASSERT_TRUE(answer) << bad;
    EXPECT_EQ(answer->status, 403);
    EXPECT_EQ(response({{"X-User", "of the server"}}), "");
  }
  EXPECT_EQ(request({}, R"({"sub":["a\r\n","b"]})"), "X-User: [\"a\\r\\n\",\"b\"]\n") << "JSON has no line breaks";
  EXPECT_EQ(request({}, R"({"sub":null})"), "");
}

TEST_F(HeadersPolicyTest, TakesValuesOfThePath) {
  options.request = {.set = fields({{"X-Tenant", "{path.tenant}"}}), .add = {}, .remove = {}, .position = {}};
  options.response = {.set = fields({{"X-For", "{path.id}/{path.tenant}"}}), .add = {}, .remove = {}, .position = {}};
  route = 1;
  path_values = {"7", "acme"};
  EXPECT_EQ(request({{"X-Tenant", "root"}}), "X-Tenant: acme\n");
  EXPECT_EQ(response({}), "X-For: 7/acme\n");
  path_values[1] = "a\nX-Admin: 1";
  begin({});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 403);
  EXPECT_EQ(response({}), "");
  route = 3;
  EXPECT_EQ(request({}), "X-Tenant: 7\n");
  EXPECT_EQ(response({}), "X-For: /7\n");
  for (const std::uint16_t other : {0, 2, 4}) {
    route = other;
    EXPECT_EQ(request({{"X-Tenant", "root"}}), "") << other;
  }
}

TEST_F(HeadersPolicyTest, ChangesAnAnswer) {
  options.response = {.set = fields({{"Cache-Control", "no-store"}, {"X-For", "{client.ip}"}}),
                      .add = fields({{"Link", "</a>"}, {"X-Empty", ""}}),
                      .remove = {{"x-powered-by"}},
                      .position = {}};
  EXPECT_EQ(request({{"A", "b"}}), "A: b\n");
  EXPECT_EQ(
      response({{"X-Powered-By", "PHP"}, {"Link", "</b>"}, {"cache-control", "public"}, {"X-POWERED-BY", "more"}}),
      "Link: </b>\nCache-Control: no-store\nX-For: 1.2.3.4\nLink: </a>\n");
}

TEST_F(HeadersPolicyTest, GivesRequestsAnId) {
  options.request_id = true;
  options.request = {.set = fields({{"X-Trace", "<{request.id}>"}}), .add = {}, .remove = {}, .position = {}};
  const std::string first = request({{"x-request-id", "spoofed"}, {"A", "b"}});
  const std::string id(http::request_id_of(*exchange));
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(first, "A: b\nX-Trace: <" + id + ">\nX-Request-Id: " + id + "\n");
  EXPECT_EQ(response({{"X-Request-ID", "of the server"}}), "X-Request-Id: " + id + "\n");
  EXPECT_NE(request({}), first);
  for (int i = 0; i < 200; ++i) EXPECT_NE(request({}), "X-Request-Id: " + id + "\n");
}

TEST_F(HeadersPolicyTest, TakesTheIdOfATrustedProxy) {
  options.request_id = true;
  from_proxy = true;
  const std::string longest(128, 'a');
  EXPECT_EQ(request({{"x-request-id", "Abc-1_2.3"}}), "X-Request-Id: Abc-1_2.3\n");
  EXPECT_EQ(request({{"x-request-id", std::string_view(longest)}}), "X-Request-Id: " + longest + "\n");
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a:b"), std::string("a/b"),
                                 std::string("\"a\""), std::string("\xc3\xa4"), longest + "a"}) {
    (void)request({{"X-Request-Id", bad}});
    EXPECT_EQ(http::request_id_of(*exchange).size(), 32U) << bad;
  }
  (void)request({{"X-Request-Id", "a"}, {"X-Request-Id", "b"}});
  EXPECT_EQ(http::request_id_of(*exchange).size(), 32U);
}

TEST_F(HeadersPolicyTest, TakesTheTraceIdOfATrustedProxy) {
  options.request_id = true;
  const std::string trace = "0af7651916cd43dd8448eb211c80319c";
  const std::string parent = "00-" + trace + "-b7ad6b7169203331-01";
  const auto id_with = [&](std::vector<http::Field> fields) {
    (void)request(std::move(fields));
    return std::string(http::request_id_of(*exchange));
  };
  EXPECT_NE(id_with({{"traceparent", parent}}), trace);
  from_proxy = true;
  EXPECT_EQ(request({{"Traceparent", parent}}), "Traceparent: " + parent + "\nX-Request-Id: " + trace + "\n");
  EXPECT_EQ(id_with({{"traceparent", parent}, {"X-Request-Id", "a b"}}), trace);
  EXPECT_EQ(id_with({{"traceparent", parent}, {"X-Request-Id", "mine"}}), "mine");
  EXPECT_NE(id_with({{"traceparent", parent}, {"traceparent", parent}}), trace);
  for (std::size_t i = 0; i < parent.size(); ++i) {
    for (const char wrong : {'g', 'A', '-', ' '}) {
      std::string bad = parent;
      if (std::exchange(bad[i], wrong) == wrong) continue;
      const std::string id = id_with({{"traceparent", bad}});
      EXPECT_EQ(id.size(), 32U) << bad;
      EXPECT_NE(id, bad.substr(3, 32)) << bad;
    }
  }
  const std::string zeros(32, '0');
  for (const std::string& bad : {parent + "-", parent.substr(1), "01" + parent.substr(2),
                                 "00-" + trace + "-0000000000000000-01", "00-" + zeros + parent.substr(35)}) {
    const std::string id = id_with({{"traceparent", bad}});
    EXPECT_NE(id, trace) << bad;
    EXPECT_NE(id, zeros) << bad;
  }
}

TEST_F(HeadersPolicyTest, AnotherPolicyUsesTheSameId) {
  options.request_id = true;
  HeadersPolicy before(options);
  http::Exchange both;
  http::Slot one, two;
  EXPECT_FALSE(before.before(both, one).take());
  const std::string id(http::request_id_of(both));
  HeadersPolicy behind(options);
  EXPECT_FALSE(behind.before(both, two).take());
  EXPECT_EQ(lines(both.request.fields), "X-Request-Id: " + id + "\n");
  both.reset();
  EXPECT_TRUE(both.request.fields.empty());
}

}  // namespace
}  // namespace sluice::gateway::headers
