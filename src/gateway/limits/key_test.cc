#include "gateway/limits/key.h"

#include <gtest/gtest.h>

#include "http/identity.h"

namespace sluice::gateway::limits {
namespace {

std::string client(std::string_view peer) {
  std::array<char, 16> room;
  return std::string(client_of(peer, room));
}

TEST(Client, IsAnAddressOrANetworkOfIpv6) {
  EXPECT_EQ(client("192.0.2.7"), "192.0.2.7");
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
  struct Asked final : http::Exchange {
    explicit Asked(std::string_view peer, std::uint16_t route = 1) {
      request.peer = peer;
      request.route = route;
    }
  };

  const Secret secret = make_secret();
};

TEST_F(KeyMakerTest, ClientsAndRoutes) {
  const auto clients = maker({});
  EXPECT_EQ(clients.make(Asked("192.0.2.1", 1)), clients.make(Asked("192.0.2.1", 2)));
  EXPECT_NE(clients.make(Asked("192.0.2.1")), clients.make(Asked("192.0.2.2")));
  const auto routes = maker({"route"});
  EXPECT_EQ(routes.make(Asked("192.0.2.1", 1)), routes.make(Asked("192.0.2.2", 1)));
  EXPECT_NE(routes.make(Asked("192.0.2.1", 1)), routes.make(Asked("192.0.2.1", 2)));
  EXPECT_NE(routes.make(Asked("", 1)), routes.make(Asked("", 257)));
  const auto both = maker({"client", "route"});
  EXPECT_NE(both.make(Asked("192.0.2.1", 1)), both.make(Asked("192.0.2.1", 2)));
  EXPECT_NE(both.make(Asked("192.0.2.1", 1)), both.make(Asked("192.0.2.2", 1)));
  EXPECT_EQ(both.make(Asked("192.0.2.1", 1)), both.make(Asked("192.0.2.1", 1)));
}

TEST_F(KeyMakerTest, HeadersAndWithoutOneTheClient) {
  const auto keys = maker({"header.x-key"});
  const http::Field a{"X-Key", "a"};
  const http::Field b{"x-key", "b"};
  const http::Field empty{"X-Key", ""};
  Asked one("192.0.2.1");
  Asked other("192.0.2.2");
  one.request.fields = {&a, 1};
  other.request.fields = {&a, 1};
  EXPECT_EQ(keys.make(one), keys.make(other));
  other.request.fields = {&b, 1};
  EXPECT_NE(keys.make(one), keys.make(other));
  one.request.fields = {};
  other.request.fields = {};
  EXPECT_NE(keys.make(one), keys.make(other));
  other.request.peer = one.request.peer;
  other.request.fields = {&empty, 1};
  EXPECT_EQ(keys.make(one), keys.make(other));
  // A header value that is an address differs from the client with that address.
  const http::Field address{"X-Key", "192.0.2.1"};
  other.request.fields = {&address, 1};
  EXPECT_NE(keys.make(one), keys.make(other));
}

TEST_F(KeyMakerTest, ClaimsAndWithoutOneTheClient) {
  const auto keys = maker({"claim.org.id"});
  Asked one("192.0.2.1");
  Asked other("192.0.2.2");
  const auto claims = [](const char* json) { return http::Claims::parse(json); };
  one.attributes.set(http::Identity{.claims = claims(R"({"org":{"id":7}})")});
  other.attributes.set(http::Identity{.claims = claims(R"({"org":{"id":7},"sub":"x"})")});
  EXPECT_EQ(keys.make(one), keys.make(other));
  other.attributes.set(http::Identity{.claims = claims(R"({"org":{"id":8}})")});
  EXPECT_NE(keys.make(one), keys.make(other));
  for (const char* without : {R"({"org":{}})", R"({"org":{"id":null}})"}) {
    other.attributes.set(http::Identity{.claims = claims(without)});
    one.attributes.clear();
    EXPECT_NE(keys.make(one), keys.make(other)) << without;
    EXPECT_EQ(keys.make(Asked("192.0.2.2")), keys.make(other)) << without;
  }
}

TEST_F(KeyMakerTest, ParametersOfPathsWhereverTheyStand) {
  const auto keys = maker({"path.tenant"});
  Asked one("192.0.2.1", 1);
  Asked other("192.0.2.2", 2);
  one.request.path_values = {"other", "acme"};
  other.request.path_values = {"acme"};
  EXPECT_EQ(keys.make(one), keys.make(other));
  other.request.path_values = {"other"};
  EXPECT_NE(keys.make(one), keys.make(other));
}

TEST_F(KeyMakerTest, AnotherSecretMakesOtherKeys) {
  EXPECT_NE(KeyMaker(parse_key_parts({}), make_secret()).make(Asked("192.0.2.1")), maker({}).make(Asked("192.0.2.1")));
}

}  // namespace
}  // namespace sluice::gateway::limits
