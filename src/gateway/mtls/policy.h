#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "gateway/mtls/options.h"
#include "gateway/policy.h"
#include "net/tls/peer_certificate.h"

namespace sluice::gateway::mtls {

// One core's [policy.NAME] of type "mtls": admits requests on connections whose client has shown a verified
// certificate with one of the names, and answers the others with 403.
class MtlsPolicy final : public PolicyOf<MtlsPolicy> {
 public:
  explicit MtlsPolicy(const Options& options);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  [[nodiscard]] Readings readings() const override;

 private:
  using Certificate = net::tls::PeerCertificate;
  using Texts = std::set<std::string, std::less<>>;

  [[nodiscard]] bool admits(const Certificate& certificate) const;

  const bool admits_all_;
  Texts subjects_;
  std::array<Texts, 3> names_;  // by Certificate::Kind
  Texts below_;                 // ".example" for "*.example"
  std::uint64_t missing_ = 0;
  std::uint64_t other_names_ = 0;
};

}  // namespace sluice::gateway::mtls
