#pragma once

#include <cstdint>
#include <utility>

#include "base/time.h"
#include "gateway/proxy/upstream.h"
#include "http/exchange.h"

namespace sluice::gateway {

// The attribute of a request that was sent to a server, for logs. The last server that was tried is kept until the
// exchange ends.
class PassedOn {
 public:
  explicit PassedOn(Upstream::Server& server) : server_(&server) { ++server.named; }
  PassedOn(PassedOn&& other) noexcept
      : to_head(other.to_head), tries(other.tries), server_(std::exchange(other.server_, nullptr)) {}
  PassedOn& operator=(PassedOn&& other) noexcept {
    std::swap(to_head, other.to_head);
    std::swap(tries, other.tries);
    std::swap(server_, other.server_);
    return *this;
  }
  ~PassedOn() {
    if (server_ != nullptr) --server_->named;
  }

  [[nodiscard]] const Upstream::Server& server() const { return *server_; }

  Duration to_head{};       // from the begin of the first try to the end of the response's header, or to the failure
  std::uint32_t tries = 1;  // how many servers were tried

 private:
  Upstream::Server* server_;
};

}  // namespace sluice::gateway
