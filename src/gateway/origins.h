#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "http/request.h"

namespace sluice::gateway {

class PolicyChecks;

// Checks an origin of the configuration: an origin as browsers write it, an origin with "*." before its domain (all
// hosts below the domain), or "*". Returns what is wrong, or an empty string.
[[nodiscard]] std::string check_origin(std::string_view text);

// The origin of the page that sends the request. Empty if there is no Origin field, or more than one.
[[nodiscard]] std::string_view origin_of(const http::Request& request);

// Whether one of the origins, as check_origin() accepts them, allows this one. An empty origin is never allowed.
[[nodiscard]] bool allows_origin(const std::vector<Located<std::string>>& origins, std::string_view origin);

// Whether the origin has the request's own scheme, host and port.
[[nodiscard]] bool is_own_origin(const http::Request& request, std::string_view origin);

// Whether the request asks for a WebSocket, in HTTP/1.1 or in HTTP/2.
[[nodiscard]] bool opens_websocket(const http::Request& request);

// Whether a request whose credential is in a cookie may pass: it only reads, or it comes from a page of the request's
// own origin or of one of these. Browsers send cookies with the requests of any page. A page cannot read the answer to
// a request of another origin, but the request may change something; and the page can read what a WebSocket receives.
[[nodiscard]] bool may_use_cookie(const http::Request& request, const std::vector<Located<std::string>>& origins);

// Checks the configured origins for may_use_cookie(). `credential`: "token". `has_cookie`: whether the policy takes the
// credential from a cookie.
void check_cookie_origins(const std::vector<Located<std::string>>& origins, std::string_view credential,
                          bool has_cookie, PolicyChecks& checks);

}  // namespace sluice::gateway
