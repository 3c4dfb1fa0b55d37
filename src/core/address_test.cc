#include "core/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace sluice::core {
namespace {

TEST(Address, ReadsWhatItWrites) {
  for (const char* text : {"127.0.0.1:8080", "0.0.0.0:80", "[::1]:443", "[fe80::1]:1", "unix:/run/sluice.sock"}) {
    const auto address = Address::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), text);
  }
  EXPECT_EQ(Address::parse("*:8080")->text(), "[::]:8080");
  EXPECT_EQ(Address::parse("localhost:8080")->text(), "127.0.0.1:8080");
  EXPECT_EQ(Address::parse("10.1.2.3:65535")->port(), 65535);
}

TEST(Address, RefusesWhatIsNotAnAddress) {
  for (const char* text : {"", ":", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "::1:80",
                           "[127.0.0.1]:80", "[::1]", "example.com:80", "unix:", "127.0.0.1:-1", "127.0.0.1: 80"}) {
    EXPECT_FALSE(Address::parse(text)) << text;
  }
  EXPECT_FALSE(Address::parse("unix:/" + std::string(200, 'x')));
}

TEST(Address, AMappedAddressIsIpv4) {
  for (const char* mapped : {"::ffff:127.0.0.1", "::FFFF:127.0.0.1", "0:0:0:0:0:ffff:7f00:1"}) {
    const auto address = Address::from_ip(mapped, 80);
    EXPECT_EQ(address->text(), "127.0.0.1:80") << mapped;
  }
  sockaddr_in6 accepted{};
  accepted.sin6_family = AF_INET6;
  accepted.sin6_port = htons(80);
  EXPECT_EQ(::inet_pton(AF_INET6, "::ffff:127.0.0.1", &accepted.sin6_addr), 1);
  const Address peer(reinterpret_cast<const sockaddr*>(&accepted), sizeof accepted);
  EXPECT_EQ(peer.text(), "127.0.0.1:80");
  EXPECT_EQ(peer.size(), Address::from_ip("127.0.0.1", 80)->size());
  EXPECT_TRUE(peer.is_loopback());
  const auto other = Address::parse("[2001:db8::ffff:7f00:1]:80");
  EXPECT_EQ(Address(other->get(), other->size()).text(), other->text());
}

TEST(Address, KnowsLoopback) {
  EXPECT_TRUE(Address::parse("127.9.9.9:1")->is_loopback());
  EXPECT_TRUE(Address::parse("[::1]:1")->is_loopback());
  EXPECT_TRUE(Address::parse("unix:/x")->is_loopback());
  EXPECT_FALSE(Address::parse("*:1")->is_loopback());
  EXPECT_FALSE(Address::parse("10.0.0.1:1")->is_loopback());
}

}  // namespace
}  // namespace sluice::core
