#pragma once

#include <string>
#include <vector>

#include "base/declare.h"
#include "core/ip_ranges.h"
#include "gateway/policy_kind.h"

namespace sluice::gateway::ip {

// [policy.NAME] with type = "ip"
struct Options {
  static constexpr PolicyKind kind{
      .name = "ip",
      .about =
          "Admits clients by their address; others are answered 403. Behind proxies, the address is the one that "
          "`trusted_proxies` of [server] determines.",
      .may_repeat = true};

  std::vector<Located<std::string>> allow;
  std::vector<Located<std::string>> deny;
  Position position;

  // Checks the combination of the keys.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("allow", &Self::allow,
            "The clients that may pass: addresses and prefixes, such as `192.0.2.7`, `10.0.0.0/8` and "
            "`2001:db8::/32`. Without it, all clients that are not in `deny` may pass. An IPv4 prefix also matches "
            "its addresses in the form of IPv4-mapped IPv6.",
            {.max = 1'000'000, .check = core::IpRanges::check});
    v.field("deny", &Self::deny, "The clients that may not pass, even if they are in `allow`.",
            {.max = 1'000'000, .check = core::IpRanges::check});
    v.position(&Self::position);
  }
};

}  // namespace sluice::gateway::ip
