#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "gateway/proxy/upstream.h"
#include "http/exchange.h"

namespace sluice::gateway {

// The attribute of a request that was sent to a server, for logs. The last server that was tried is kept until the
// exchange ends.
class PassedOn {
 public:
  // Why a try failed.
  enum class Failure : std::uint8_t { none, busy, connect, timeout, no_response, invalid_response, status };
  [[nodiscard]] static std::string_view name_of(Failure failure) {
    constexpr std::array<std::string_view, 7> names{
        "", "busy", "connect", "timeout", "no_response", "invalid_response", "status"};
    return names[static_cast<std::size_t>(failure)];
  }

  explicit PassedOn(Upstream::Server& server) : server_(&server) { ++server.named; }
  PassedOn(PassedOn&& other) noexcept
      : to_head(other.to_head),
        tries(other.tries),
        failure(other.failure),
        server_(std::exchange(other.server_, nullptr)) {}
  PassedOn& operator=(PassedOn&& other) noexcept {
    std::swap(to_head, other.to_head);
    std::swap(tries, other.tries);
    std::swap(failure, other.failure);
    std::swap(server_, other.server_);
    return *this;
  }
  ~PassedOn() {
    if (server_ != nullptr) --server_->named;
  }

  void move_to(Upstream::Server& server) {
    --server_->named;
    server_ = &server;
    ++server.named;
    ++tries;
  }
  [[nodiscard]] const Upstream::Server& server() const { return *server_; }

  Duration to_head{};       // from the begin of the first try to the end of the response's header, or to the failure
  std::uint32_t tries = 1;  // how many servers were tried
  Failure failure{};        // of the last try that failed

 private:
  Upstream::Server* server_;
};

}  // namespace sluice::gateway
