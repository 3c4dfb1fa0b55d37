#include "base/host.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Host, NamesDomainsAndAddresses) {
  for (const char* good :
       {"localhost", "api.example.com", "*.example.com", "a_b.example", "127.0.0.1", "::1", "fe80::1"}) {
    EXPECT_EQ(check_host(good), "") << good;
  }
  const std::string long_name(254, 'a');
  for (const char* bad : {"", "*", "*.", "*x.example", "a.*.example", ".example", "example.", "a..b", "a.example:80",
                          "http://a.example", "a b", "[::1]", "*.::1", "über.example", long_name.c_str()}) {
    EXPECT_NE(check_host(bad), "") << bad;
  }
  EXPECT_EQ(check_host("A.example"), "must be in lower case");
}

}  // namespace
}  // namespace sluice
