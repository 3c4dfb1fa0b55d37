#include "http/redirect.h"

#include <algorithm>
#include <utility>

namespace sluice::http {

core::Async<Response> HttpsRedirect::handle(Exchange& exchange) {
  const Request& request = exchange.request;
  // `OPTIONS *` asks about the server, so there is no URL to redirect to (RFC 9110, 9.3.7).
  if (request.secure || request.path == "*") return next_.handle(exchange);
  if (pinned_ != nullptr) exchange.pin.hold(*pinned_);
  // In "[::1]:8080" the port follows the bracket.
  std::string_view host = request.authority;
  const auto colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos) host = host.substr(0, colon);
  // In an absolute target (RFC 9112, 3.2.2) the path and query follow the authority.
  std::string_view target = request.target;
  if (const auto scheme = target.find("://"); scheme != target.npos && !target.starts_with('/')) {
    target.remove_prefix(std::min(target.find_first_of("/?", scheme + 3), target.size()));
  } else if (!target.starts_with('/')) {
    target = "*";
  }
  if (host.empty() || target == "*") return problem(400, "This server answers over HTTPS only.");

  std::string location = "https://";
  location += host;
  if (port_ != 443) location += ":" + std::to_string(port_);
  if (!target.starts_with('/')) location += '/';
  location += target;
  Response response;
  response.status = request.method == Method::get || request.method == Method::head ? 301 : 308;
  response.fields.add_owned("Location", std::move(location));
  return response;
}

}  // namespace sluice::http
