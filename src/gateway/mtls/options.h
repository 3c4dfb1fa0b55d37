#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "gateway/policy_kind.h"

namespace sluice::gateway::mtls {

// [policy.NAME] with type = "mtls"
struct Options {
  static constexpr PolicyKind kind{
      .name = "mtls",
      .about =
          "Admits clients that have shown a certificate in the handshake of their connection, which `client_ca` of "
          "[server.tls] has verified. Others are answered 403. Without `subject` and `san`, every such certificate is "
          "admitted; otherwise one of the names must match.",
      .may_repeat = true};

  std::vector<Located<std::string>> subject;
  std::vector<Located<std::string>> san;

  // Return what is wrong with an entry of the lists.
  static std::string check_subject(std::string_view text);
  static std::string check_san(std::string_view text);

  // Checks that clients are asked for certificates.
  void check(PolicyChecks& checks) const;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = Options;
    v.field("subject", &Self::subject,
            "Subjects of certificates: complete distinguished names in the format of RFC 2253, such as "
            "`\"CN=ada,OU=films,O=Example\"`.",
            {.max = 100'000, .check = check_subject});
    v.field("san", &Self::san,
            "Subject alternative names: host names (`billing.example`, `*.jobs.example` for exactly one label more), "
            "e-mail addresses and URIs (`spiffe://example/billing`).",
            {.max = 100'000, .check = check_san});
  }
};

}  // namespace sluice::gateway::mtls
