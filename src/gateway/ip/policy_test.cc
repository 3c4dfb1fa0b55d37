#include "gateway/ip/policy.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway::ip {
namespace {

std::vector<Located<std::string>> list(std::initializer_list<const char*> texts) {
  return {texts.begin(), texts.end()};
}

// The status, or 0 if the request passes.
int answer(IpPolicy& policy, std::string_view client) {
  http::Exchange exchange;
  exchange.request.peer = client;
  http::Slot slot;
  const auto answer = policy.before(exchange, slot).take();
  return answer ? answer->status : 0;
}

TEST(IpPolicy, LetsNobodyElsePass) {
  IpPolicy policy(
      {.allow = list({"10.0.0.0/8", "2001:db8::/32"}), .deny = list({"10.6.6.6", "10.7.0.0/16"}), .position = {}});
  for (const char* good : {"10.0.0.1", "10.6.6.7", "::ffff:10.0.0.1", "2001:db8::9"})
    EXPECT_EQ(answer(policy, good), 0) << good;
  for (const char* bad : {"11.0.0.1", "10.6.6.6", "10.7.1.1", "::ffff:10.7.1.1", "2001:db9::1", "::1", "", "unknown"}) {
    EXPECT_EQ(answer(policy, bad), 403) << bad;
  }
  EXPECT_EQ(policy.readings().at(0).value, 8);
}

TEST(IpPolicy, LetsAllOthersPass) {
  IpPolicy policy({.allow = {}, .deny = list({"10.0.0.0/8"}), .position = {}});
  EXPECT_EQ(answer(policy, "11.0.0.1"), 0);
  EXPECT_EQ(answer(policy, "2001:db8::1"), 0);
  EXPECT_EQ(answer(policy, "10.0.0.1"), 403);
  EXPECT_EQ(answer(policy, ""), 403) << "nobody knows who that is";
}

}  // namespace
}  // namespace sluice::gateway::ip
