#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/worker.h"
#include "core/blocking_pool.h"
#include "core/core.h"
#include "gateway/jwt/revocations.h"
#include "http/handler.h"

namespace sluice::app {

// POST /jwt/revoke of the admin listener: ?jti=ID or ?sub=SUBJECT[&before=TIME], with [&exp=TIME][&policy=NAME].
class AdminRevoke final : public http::Handler {
 public:
  AdminRevoke(core::Core& core, std::span<Worker* const> workers, core::BlockingPool& threads)
      : core_(core), workers_(workers), threads_(threads) {}

  core::Async<http::Response> handle(http::Exchange& exchange) override;

 private:
  using Revocations = gateway::jwt::Revocations;
  // The revocations of the policy, or of the only file if no policy is named.
  [[nodiscard]] std::expected<std::shared_ptr<Revocations>, http::Response> find(std::string_view policy) const;
  core::Task<http::Response> revoke(std::shared_ptr<Revocations> at, std::vector<gateway::jwt::Revocation> entries);

  core::Core& core_;
  std::span<Worker* const> workers_;
  core::BlockingPool& threads_;
};

}  // namespace sluice::app
