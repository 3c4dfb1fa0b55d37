#include "gateway/proxy/name_watch.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway {
namespace {

using Texts = std::vector<std::string>;

Texts servers(const Texts& ips, bool is_split = false) {
  std::vector<core::Address> addresses;
  for (const std::string& ip : ips) addresses.push_back(core::Address::from_ip(ip, 0).value());
  return servers_among(addresses, is_split);
}

TEST(NameWatch, ANameWithSeveralAddressesIsSplit) {
  EXPECT_EQ(servers({"10.0.0.2", "10.0.0.1", "10.0.0.2"}), (Texts{"10.0.0.1", "10.0.0.2"}));
  EXPECT_EQ(servers({"fd00::2", "fd00::1"}), (Texts{"fd00::1", "fd00::2"}));
}

TEST(NameWatch, OneAddressOfEachFamilyIsOneServer) {
  EXPECT_EQ(servers({}), Texts{});
  EXPECT_EQ(servers({"127.0.0.1"}), Texts{});
  EXPECT_EQ(servers({"::1", "127.0.0.1"}), Texts{});
  EXPECT_EQ(servers({"10.0.0.1", "10.0.0.1"}), Texts{});
}

TEST(NameWatch, TheFamilyWithMoreAddressesIsTaken) {
  EXPECT_EQ(servers({"fd00::1", "10.0.0.1", "10.0.0.2"}), (Texts{"10.0.0.1", "10.0.0.2"}));
  EXPECT_EQ(servers({"10.0.0.1", "fd00::1", "fd00::2"}), (Texts{"fd00::1", "fd00::2"}));
  EXPECT_EQ(servers({"fd00::1", "10.0.0.1", "fd00::2", "10.0.0.2"}), (Texts{"fd00::1", "fd00::2"}));
}

TEST(NameWatch, ASplitNameStaysSplit) {
  EXPECT_EQ(servers({"10.0.0.1"}, true), Texts{"10.0.0.1"});
  EXPECT_EQ(servers({}, true), Texts{});
}

TEST(NameWatch, TheNumberOfServersIsLimited) {
  Texts ips;
  for (int i = 0; i < 300; ++i) ips.push_back("10.0." + std::to_string(i / 100) + "." + std::to_string(i % 100));
  EXPECT_EQ(servers(ips).size(), 256U);
}

}  // namespace
}  // namespace sluice::gateway
