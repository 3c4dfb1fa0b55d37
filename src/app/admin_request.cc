#include "app/admin_request.h"

#include <utility>

#include "core/address.h"
#include "http/exchange.h"

namespace sluice::app {
namespace {

bool is_own(std::string_view authority) {
  std::string_view host = authority;
  if (const auto colon = host.rfind(':'); colon != host.npos && !host.ends_with(']')) host = host.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return http::same_name(host, "localhost") || core::Address::from_ip(host, 0).has_value();
}

}  // namespace

http::Response text_response(std::string_view type, std::string_view text) {
  http::Response response;
  response.fields.add("Content-Type", type);
  response.fields.add("Cache-Control", "no-store");
  Buffer body;
  body.append(text);
  response.body = std::move(body);
  return response;
}

std::optional<http::Response> refuse_browsers(const http::Request& request) {
  if (request.has_field("origin")) return http::problem(403, "A page of a browser may not ask for this.");
  if (is_own(request.authority)) return std::nullopt;
  return http::problem(403, "The Host field is neither an address nor localhost.");
}

}  // namespace sluice::app
