#include "gateway/dry_run.h"

#include <utility>

namespace sluice::gateway {

core::Async<std::optional<http::Response>> DryRun::before(http::Exchange& exchange, http::Slot& slot) {
  auto asking = of_->before(exchange, slot);
  if (asking.ready()) return count(asking.get());
  return count_later(asking.take_task());
}

core::Task<std::optional<http::Response>> DryRun::count_later(core::Task<std::optional<http::Response>> asking) {
  co_return count(co_await std::move(asking));
}

std::optional<http::Response> DryRun::count(const std::optional<http::Response>& answer) {
  refused_ += answer ? 1 : 0;
  return std::nullopt;
}

Readings DryRun::readings() const {
  Readings all = of_->readings();
  all.push_back(counter("sluice_policy_dry_run_refused_total",
                        "Requests that a policy with dry_run would have refused.", static_cast<double>(refused_)));
  return all;
}

}  // namespace sluice::gateway
