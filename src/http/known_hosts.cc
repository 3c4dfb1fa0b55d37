#include "http/known_hosts.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "http/target.h"

namespace sluice::http {

core::Async<Response> KnownHosts::handle(Exchange& exchange) {
  std::array<char, max_host_size> lower;
  const std::string_view host = normal_host(exchange.request.authority, lower);
  const auto is_it = [host](std::string_view known) {
    return known == host || (known.starts_with("*.") && host.ends_with(known.substr(1)));
  };
  if (std::ranges::any_of(hosts_, is_it)) return next_.handle(exchange);
  if (pinned_ != nullptr) exchange.pin.hold(*pinned_);
  return problem(421,
                 "This server does not answer for this host. `hosts` of [server] lists those that it answers for.");
}

}  // namespace sluice::http
