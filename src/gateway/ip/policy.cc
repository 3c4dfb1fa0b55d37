#include "gateway/ip/policy.h"

#include <string>
#include <vector>

namespace sluice::gateway::ip {
namespace {

core::IpRanges ranges_of(const std::vector<Located<std::string>>& texts) {
  core::IpRanges ranges;
  for (const auto& text : texts) (void)ranges.add(text.value);  // valid, because the options were checked
  ranges.seal();
  return ranges;
}

}  // namespace

IpPolicy::IpPolicy(const Options& options) : allow_(ranges_of(options.allow)), deny_(ranges_of(options.deny)) {}

core::Async<std::optional<http::Response>> IpPolicy::before(http::Exchange& exchange, http::Slot&) {
  const auto ip = core::Ip::parse(exchange.request.peer);
  if (ip && !deny_.contains(*ip) && (allow_.empty() || allow_.contains(*ip))) return std::optional<http::Response>();
  ++refusals_;
  return std::optional(http::problem(403, "Clients with this address may not come here."));
}

Readings IpPolicy::readings() const {
  return {counter("sluice_ip_refusals_total", "Requests that were refused for their client's address.", refusals_)};
}

}  // namespace sluice::gateway::ip
