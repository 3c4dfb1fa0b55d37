#include "http/standing.h"

#include <algorithm>

#include "core/reactor.h"
#include "core/sleep.h"

namespace sluice::http {
namespace {

constexpr Duration look_every = 1s;

}  // namespace

Standing::Standing(const Exchange& exchange) : expires_s_(expires_s_of(exchange)) {
  const auto* const revocable = exchange.attributes.find<Revocable>();
  claims_ = shared_claims_of(exchange);
  if (revocable != nullptr && claims_ != nullptr) withdrawals_ = revocable->withdrawals;
}

bool Standing::is_over(const core::Reactor& reactor) const {
  return reactor.now() >= expiry(expires_s_, reactor) || (withdrawals_ != nullptr && withdrawals_->has(*claims_));
}

Instant Standing::next_look(const core::Reactor& reactor) const {
  const Instant end = expiry(expires_s_, reactor);
  return withdrawals_ != nullptr ? std::min(end, reactor.now() + look_every) : end;
}

core::Task<void> Standing::end(core::Reactor& reactor) const {
  while (!is_over(reactor)) co_await core::Sleep(reactor, next_look(reactor));
}

}  // namespace sluice::http
