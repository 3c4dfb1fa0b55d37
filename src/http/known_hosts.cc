#include "http/known_hosts.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "http/target.h"

namespace sluice::http {
namespace {

bool only_reads(Method method) { return method == Method::get || method == Method::head || method == Method::options; }

// Browsers name the origin of a page whose request may write, and say how it relates to the server.
bool is_of_other_origin(const Request& request) {
  for (const Field& field : request.fields) {
    if (same_name(field.name, "origin")) {
      const std::size_t authority = field.value.find("://");
      if (authority == field.value.npos || field.value.substr(authority + 3) != request.authority) return true;
    } else if (same_name(field.name, "sec-fetch-site") && field.value != "same-origin" && field.value != "none") {
      return true;
    }
  }
  return false;
}

}  // namespace

bool KnownHosts::knows_host(const Request& request) const {
  std::array<char, max_host_size> lower;
  const std::string_view host = normal_host(request.authority, lower);
  return std::ranges::any_of(hosts_, [host](std::string_view known) {
    return known == host || (known.starts_with("*.") && host.ends_with(known.substr(1)));
  });
}

core::Async<Response> KnownHosts::handle(Exchange& exchange) {
  const Request& request = exchange.request;
  const bool is_known = hosts_.empty() || knows_host(request);
  const bool is_foreign = same_origin_ && !only_reads(request.method) && is_of_other_origin(request);
  if (is_known && !is_foreign) return next_.handle(exchange);
  if (pinned_ != nullptr) exchange.pin.hold(*pinned_);
  if (!is_known) {
    return problem(421,
                   "This server does not answer for this host. `hosts` of [server] lists those that it answers for.");
  }
  return problem(403, "A page of another origin may not write here.");
}

}  // namespace sluice::http
