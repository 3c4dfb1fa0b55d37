#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/authrequest/options.h"
#include "gateway/changed_request.h"
#include "gateway/policy.h"
#include "gateway/proxy/proxy.h"

namespace sluice::gateway::authrequest {

// One core's [policy.NAME] of type "auth-request": another server, the auth server, decides about each request. The
// policy sends it a GET with the request's header. If it answers 2xx, the policy copies the configured fields into the
// request, lets it pass, and sends the auth server's Set-Cookie to the client. The policy forwards a 3xx, 401, 403 or
// 429 to the client, and turns everything else into 502, 503 or 504.
class AuthRequestPolicy final : public PolicyOf<AuthRequestPolicy> {
 public:
  AuthRequestPolicy(const Options& options, std::shared_ptr<Upstream> upstream,
                    std::shared_ptr<const SharedUpstream> shared);

  [[nodiscard]] core::Async<std::optional<http::Response>> before(http::Exchange& exchange, http::Slot& slot) override;
  void after(http::Exchange& exchange, http::Slot& slot, http::Response& response) override;
  [[nodiscard]] bool owns_field(std::string_view name) const override { return copies(name); }
  [[nodiscard]] Readings readings() const override;

 private:
  [[nodiscard]] core::Task<std::optional<http::Response>> ask(http::Exchange& exchange, http::Slot& slot);
  void pass(http::Exchange& exchange, http::Slot& slot, std::span<const http::Field> answered);
  [[nodiscard]] bool copies(std::string_view name) const;

  const std::string path_;
  const std::vector<std::string> copied_;  // names of fields
  Proxy proxy_;
  ChangedRequests changed_;
  std::uint64_t passed_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace sluice::gateway::authrequest
