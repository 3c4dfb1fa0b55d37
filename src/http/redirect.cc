#include "http/redirect.h"

#include <utility>

namespace sluice::http {

core::Async<Response> HttpsRedirect::handle(Request& request) {
  if (request.secure) return next_.handle(request);
  // "[::1]:8080" has its port behind the bracket.
  std::string_view host = request.authority;
  const auto colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos) host = host.substr(0, colon);
  if (host.empty() || !request.target.starts_with('/')) return problem(400, "This server answers over HTTPS only.");

  std::string location = "https://";
  location += host;
  if (port_ != 443) location += ":" + std::to_string(port_);
  location += request.target;
  Response response;
  response.status = request.method == Method::get || request.method == Method::head ? 301 : 308;
  response.fields.add_owned("Location", std::move(location));
  return response;
}

}  // namespace sluice::http
