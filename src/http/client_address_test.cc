#include "http/client_address.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

TrustedProxies trusted(std::initializer_list<std::string_view> proxies, bool unix_sockets = false) {
  TrustedProxies made{.addresses = {}, .unix_sockets = unix_sockets};
  for (const std::string_view proxy : proxies) EXPECT_TRUE(made.addresses.add(proxy));
  made.addresses.seal();
  return made;
}

const TrustedProxies internal = trusted({"10.0.0.0/8", "2001:db8::/32"});

// Returns the client of a request with these fields.
std::string client(std::vector<Field> fields, std::string_view peer = "10.0.0.1",
                   const TrustedProxies* proxies = &internal) {
  Exchange exchange;
  Request& request = exchange.request;
  request.fields = fields;
  set_client(exchange, peer, false, proxies);
  EXPECT_EQ(request.connection_peer, peer);
  EXPECT_EQ(request.from_proxy, proxies != nullptr && proxies->trusts(peer));
  return std::string(request.peer);
}
std::string client(std::string_view list) { return client({{"X-Forwarded-For", list}}); }

TEST(ClientAddress, MayComeFromAnotherField) {
  TrustedProxies proxies = internal;
  proxies.client_field = "CF-Connecting-IP";
  const auto named = [&](std::vector<Field> fields) { return client(std::move(fields), "10.0.0.1", &proxies); };
  EXPECT_EQ(named({{"X-Forwarded-For", "6.6.6.6"}, {"cf-connecting-ip", "1.2.3.4"}}), "1.2.3.4");
  EXPECT_EQ(named({{"CF-Connecting-IP", "6.6.6.6, 1.2.3.4, 10.0.0.2"}}), "1.2.3.4");
  EXPECT_EQ(named({{"X-Forwarded-For", "6.6.6.6"}}), "10.0.0.1");
}

TEST(ClientAddress, IsThePeerWhereNobodyIsTrusted) {
  const std::vector<Field> fields = {{"X-Forwarded-For", "6.6.6.6"}, {"X-Forwarded-Proto", "https"}};
  EXPECT_EQ(client(fields, "10.0.0.1", nullptr), "10.0.0.1");
  EXPECT_EQ(client(fields, "11.0.0.1"), "11.0.0.1");
  EXPECT_EQ(client(fields, ""), "");
  Exchange exchange;
  Request& request = exchange.request;
  request.fields = fields;
  set_client(exchange, "11.0.0.1", false, &internal);
  EXPECT_FALSE(request.secure || request.from_proxy);
}

TEST(ClientAddress, IsTheLastThatIsNoProxys) {
  EXPECT_EQ(client("1.2.3.4"), "1.2.3.4");
  EXPECT_EQ(client("6.6.6.6, 1.2.3.4"), "1.2.3.4") << "the client has sent the first one itself";
  EXPECT_EQ(client("6.6.6.6,\t1.2.3.4 ,10.0.0.9, 2001:db8::7"), "1.2.3.4");
  EXPECT_EQ(client({{"x-forwarded-for", "6.6.6.6, 1.2.3.4"}, {"A", "b"}, {"X-FORWARDED-FOR", "10.2.2.2"}}), "1.2.3.4");
  EXPECT_EQ(client("10.0.0.7, 10.0.0.8"), "10.0.0.7") << "all are trusted";
  EXPECT_EQ(client(std::vector<Field>{}), "10.0.0.1");
  EXPECT_EQ(client({{"X-Forwarded-For", "1.2.3.4"}}, "::ffff:10.0.0.1"), "1.2.3.4");
  EXPECT_EQ(client("1.2.3.4, ::ffff:10.0.0.9"), "1.2.3.4");
  for (const char* mapped : {"::ffff:1.2.3.4", "::FFFF:1.2.3.4", "[::ffff:1.2.3.4]:5678", "::ffff:102:304"}) {
    EXPECT_EQ(client(mapped), "1.2.3.4") << mapped;
  }
  EXPECT_EQ(client("::1.2.3.4"), "::1.2.3.4");
  EXPECT_EQ(client("1.2.3.4:5678"), "1.2.3.4");
  EXPECT_EQ(client("[2001:db9::1]:5678"), "2001:db9::1");
  EXPECT_EQ(client("[2001:db9::1]"), "2001:db9::1");
  EXPECT_EQ(client("2001:db9::1"), "2001:db9::1");
}

TEST(ClientAddress, EndsAtWhatIsNoAddress) {
  for (const std::string_view bad :
       {"", " ", "unknown", "_hidden", "1.2.3", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:123456", "\"1.2.3.4\"", "[1.2.3.4]:1",
        "[::1", "::1]", "[::1]x", "[::1]:", "1.2.3.4 5.6.7.8", "for=1.2.3.4", "1.2.3.4;5", "localhost"}) {
    EXPECT_EQ(client(bad), "10.0.0.1") << bad;
    EXPECT_EQ(client("1.2.3.4, " + std::string(bad) + ", 10.0.0.9"), "10.0.0.9") << bad;
  }
  EXPECT_EQ(client("1.2.3.4,"), "10.0.0.1");
  EXPECT_EQ(client(std::string_view("1.2.3.4\0", 8)), "10.0.0.1");
}

TEST(ClientAddress, IsLookedForInAFewHops) {
  std::string list = "1.2.3.4";
  for (int i = 0; i < 63; ++i) list += ",10.0.0.9";
  EXPECT_EQ(client(list), "1.2.3.4");
  EXPECT_EQ(client(list + ",10.0.0.8"), "10.0.0.9");
}

TEST(ClientAddress, BehindAUnixSocket) {
  const TrustedProxies local = trusted({}, true);
  EXPECT_EQ(client({{"X-Forwarded-For", "1.2.3.4"}}, "", &local), "1.2.3.4");
  EXPECT_EQ(client({{"X-Forwarded-For", "1.2.3.4"}}, "10.0.0.1", &local), "10.0.0.1");
}

TEST(ClientAddress, TheSchemeIsTheLastProxys) {
  const auto secure = [](bool connection, std::vector<std::string_view> schemes) {
    std::vector<Field> fields;
    for (const std::string_view scheme : schemes) fields.push_back({"X-Forwarded-Proto", scheme});
    Exchange exchange;
    Request& request = exchange.request;
    request.fields = fields;
    set_client(exchange, "10.0.0.1", connection, &internal);
    return request.secure;
  };
  EXPECT_TRUE(secure(false, {"https"}) && secure(false, {"HTTPS"}) && secure(false, {"wss"}));
  EXPECT_FALSE(secure(true, {"http"}) || secure(true, {"ws"}));
  EXPECT_TRUE(secure(false, {"http", "http, https"}));
  EXPECT_FALSE(secure(false, {"https, http"}));
  for (const bool connection : {false, true}) {
    EXPECT_EQ(secure(connection, {}), connection);
    for (const std::string_view odd : {"", "ftp", "https:", "https,"}) EXPECT_EQ(secure(connection, {odd}), connection);
  }
}

}  // namespace
}  // namespace sluice::http
