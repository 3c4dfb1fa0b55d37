#pragma once

#include <memory>

#include "base/time.h"
#include "core/task.h"
#include "http/exchange.h"
#include "http/identity.h"

namespace sluice::http {

// Whether the credentials of a request are still accepted, for what outlives the request: streams, WebSockets, tunnels
// and sessions. Credentials that are withdrawn are noticed within a second.
class Standing {
 public:
  explicit Standing(const Exchange& exchange);

  [[nodiscard]] bool is_over(const core::Reactor& reactor) const;
  // When to ask again; `never`: it does not end.
  [[nodiscard]] Instant next_look(const core::Reactor& reactor) const;
  // Returns when it is over.
  [[nodiscard]] core::Task<void> end(core::Reactor& reactor) const;

 private:
  double expires_s_;
  std::shared_ptr<const Claims> claims_;
  std::shared_ptr<Withdrawals> withdrawals_;  // null: they cannot be withdrawn
};

}  // namespace sluice::http
