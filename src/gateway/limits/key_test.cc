#include "gateway/limits/key.h"

#include <gtest/gtest.h>

namespace sluice::gateway::limits {
namespace {

std::string client(std::string_view peer) {
  std::array<char, 16> room;
  return std::string(client_of(peer, room));
}

TEST(Client, IsAnAddressOrANetworkOfIpv6) {
  EXPECT_EQ(client("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(client("::ffff:192.0.2.7"), client("192.0.2.7"));
  EXPECT_NE(client("192.0.2.7"), client("192.0.2.8"));
  EXPECT_EQ(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
  EXPECT_EQ(client("2001:db8:1:2::1").size(), 8u);
  EXPECT_NE(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
  EXPECT_EQ(client("fe80::1%eth0"), client("fe80::2"));
  EXPECT_EQ(client(""), "");
  EXPECT_EQ(client("no:address"), "no:address");
}

TEST(KeyPart, KnowsItsFiveForms) {
  using From = KeyPart::From;
  EXPECT_EQ(parse_key_part("client")->from, From::client);
  EXPECT_EQ(parse_key_part("route")->from, From::route);
  EXPECT_EQ(parse_key_part("header.X-Api-Key")->name, "X-Api-Key");
  EXPECT_EQ(parse_key_part("claim.org.id")->name, "org.id");
  EXPECT_EQ(parse_key_part("path.tenant")->from, From::path);
  for (const auto* wrong : {"", "clients", "header.", "header.a b", "claim.", "path.", "query.a", "Client"}) {
    EXPECT_FALSE(parse_key_part(wrong)) << wrong;
    EXPECT_FALSE(check_key_part(wrong).empty());
  }
}

class KeyMakerTest : public testing::Test {
 protected:
  [[nodiscard]] KeyMaker maker(const std::vector<std::string>& per) const {
    KeyMaker made(parse_key_parts(per), secret);
    made.used_by(1, *http::Pattern::parse("/a/{x}/{tenant}"));
    made.used_by(2, *http::Pattern::parse("/b/{tenant}"));
    return made;
  }
  static http::Request request(std::string_view peer, std::uint16_t route = 1) {
    http::Request request;
    request.peer = peer;
    request.route = route;
    return request;
  }

  const Secret secret = make_secret();
};

TEST_F(KeyMakerTest, ClientsAndRoutes) {
  const auto clients = maker({});
  EXPECT_EQ(clients.make(request("192.0.2.1", 1)), clients.make(request("192.0.2.1", 2)));
  EXPECT_NE(clients.make(request("192.0.2.1")), clients.make(request("192.0.2.2")));
  const auto routes = maker({"route"});
  EXPECT_EQ(routes.make(request("192.0.2.1", 1)), routes.make(request("192.0.2.2", 1)));
  EXPECT_NE(routes.make(request("192.0.2.1", 1)), routes.make(request("192.0.2.1", 2)));
  EXPECT_NE(routes.make(request("", 1)), routes.make(request("", 257)));
  const auto both = maker({"client", "route"});
  EXPECT_NE(both.make(request("192.0.2.1", 1)), both.make(request("192.0.2.1", 2)));
  EXPECT_NE(both.make(request("192.0.2.1", 1)), both.make(request("192.0.2.2", 1)));
  EXPECT_EQ(both.make(request("192.0.2.1", 1)), both.make(request("192.0.2.1", 1)));
}

TEST_F(KeyMakerTest, HeadersAndWithoutOneTheClient) {
  const auto keys = maker({"header.x-key"});
  const http::Field a{"X-Key", "a"};
  const http::Field b{"x-key", "b"};
  const http::Field empty{"X-Key", ""};
  http::Request one = request("192.0.2.1");
  http::Request other = request("192.0.2.2");
  one.fields = {&a, 1};
  other.fields = {&a, 1};
  EXPECT_EQ(keys.make(one), keys.make(other));
  other.fields = {&b, 1};
  EXPECT_NE(keys.make(one), keys.make(other));
  one.fields = {};
  other.fields = {};
  EXPECT_NE(keys.make(one), keys.make(other));
  other.peer = one.peer;
  other.fields = {&empty, 1};
  EXPECT_EQ(keys.make(one), keys.make(other));
  // A header value that is an address differs from the client with that address.
  const http::Field address{"X-Key", "192.0.2.1"};
  other.fields = {&address, 1};
  EXPECT_NE(keys.make(one), keys.make(other));
}

TEST_F(KeyMakerTest, ClaimsAndWithoutOneTheClient) {
  const auto keys = maker({"claim.org.id"});
  http::Request one = request("192.0.2.1");
  http::Request other = request("192.0.2.2");
  const auto claims = [](const char* json) { return http::Claims::parse(json); };
  one.findings.claims = claims(R"({"org":{"id":7}})");
  other.findings.claims = claims(R"({"org":{"id":7},"sub":"x"})");
  EXPECT_EQ(keys.make(one), keys.make(other));
  other.findings.claims = claims(R"({"org":{"id":8}})");
  EXPECT_NE(keys.make(one), keys.make(other));
  for (const char* without : {R"({"org":{}})", R"({"org":{"id":null}})"}) {
    other.findings.claims = claims(without);
    one.findings.claims = nullptr;
    EXPECT_NE(keys.make(one), keys.make(other)) << without;
    EXPECT_EQ(keys.make(request("192.0.2.2")), keys.make(other)) << without;
  }
}

TEST_F(KeyMakerTest, ParametersOfPathsWhereverTheyStand) {
  const auto keys = maker({"path.tenant"});
  http::Request one = request("192.0.2.1", 1);
  http::Request other = request("192.0.2.2", 2);
  one.path_values = {"other", "acme"};
  other.path_values = {"acme"};
  EXPECT_EQ(keys.make(one), keys.make(other));
  other.path_values = {"other"};
  EXPECT_NE(keys.make(one), keys.make(other));
}

TEST_F(KeyMakerTest, AnotherSecretMakesOtherKeys) {
  EXPECT_NE(KeyMaker(parse_key_parts({}), make_secret()).make(request("192.0.2.1")),
            maker({}).make(request("192.0.2.1")));
}

}  // namespace
}  // namespace sluice::gateway::limits
