#include "gateway/origins.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ascii.h"
#include "gateway/policy_checks.h"
#include "http/accept.h"
#include "http/websocket/handshake.h"

namespace sluice::gateway {
namespace {

bool is_origin_host(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '.' || c == '_';
  });
}

// "https://*.app.example" allows "https://a.b.app.example".
bool matches_origin(std::string_view allowed, std::string_view origin) {
  if (allowed == "*") return true;
  const auto star = allowed.find('*');
  if (star == allowed.npos) return origin == allowed;
  const std::string_view scheme = allowed.substr(0, star);
  const std::string_view domain = allowed.substr(star + 1);  // begins with a dot
  if (origin.size() <= scheme.size() + domain.size()) return false;
  return origin.starts_with(scheme) && origin.ends_with(domain) &&
         is_origin_host(origin.substr(scheme.size(), origin.size() - scheme.size() - domain.size()));
}

}  // namespace

std::string check_origin(std::string_view text) {
  if (text == "*") return {};
  const std::string_view wanted = "must be \"*\", or as browsers write it: \"https://app.example\", or with a port";
  const auto colon = text.find("://");
  if (colon == text.npos || colon == 0) return std::string(wanted);
  const std::string_view scheme = text.substr(0, colon);
  std::string_view host = text.substr(colon + 3);
  const bool has_star = host.starts_with("*.");
  if (has_star) host.remove_prefix(2);
  std::string_view port;
  if (const auto at = host.rfind(':'); at != host.npos && !host.ends_with(']')) {
    port = host.substr(at + 1);
    host = host.substr(0, at);
    if (port.empty() || port.size() > 5 || !std::ranges::all_of(port, is_digit)) return std::string(wanted);
  }
  const bool is_address = host.starts_with('[') && host.ends_with(']') && host.size() > 2 && !has_star;
  if (!is_origin_host(scheme) || !(is_origin_host(host) || is_address)) return std::string(wanted);
  if ((scheme == "https" && port == "443") || (scheme == "http" && port == "80")) {
    return "must not name its scheme's own port, as browsers do not";
  }
  return {};
}

std::string_view origin_of(const http::Request& request) {
  std::string_view origin;
  for (const http::Field& field : request.fields) {
    if (!http::same_name(field.name, "origin")) continue;
    if (!origin.empty()) return {};
    origin = field.value;
  }
  return origin;
}

bool allows_origin(const std::vector<Located<std::string>>& origins, std::string_view origin) {
  if (origin.empty()) return false;
  return std::ranges::any_of(origins, [&](const auto& allowed) { return matches_origin(allowed.value, origin); });
}

bool is_own_origin(const http::Request& request, std::string_view origin) {
  return origin.starts_with(request.secure ? "https://" : "http://") &&
         http::websocket::is_same_origin(origin, request.authority);
}

bool opens_websocket(const http::Request& request) {
  return !request.upgrade.empty() && http::lists_token(request.upgrade, "websocket");
}

bool may_use_cookie(const http::Request& request, const std::vector<Located<std::string>>& origins) {
  const bool only_reads = request.method == http::Method::get || request.method == http::Method::head ||
                          request.method == http::Method::options;
  if (only_reads && !opens_websocket(request)) return true;
  const std::string_view origin = origin_of(request);
  return is_own_origin(request, origin) || allows_origin(origins, origin);
}

void check_cookie_origins(const std::vector<Located<std::string>>& origins, std::string_view credential,
                          bool has_cookie, PolicyChecks& checks) {
  if (!origins.empty() && !has_cookie) {
    checks.complain(origins.front().position,
                    fmt::format("[policy.{}] takes no {} from a cookie", checks.name.value, credential),
                    "\"origins\" is for cookies");
  }
  const auto any = std::ranges::find(origins, "*", &Located<std::string>::value);
  if (any != origins.end()) {
    checks.complain(any->position, "with \"*\" the pages of any origin could act for the users", "name the origins");
  }
}

}  // namespace sluice::gateway
