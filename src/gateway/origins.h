#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/declare.h"
#include "http/request.h"

namespace sluice::gateway {

// Checks an origin of the configuration: an origin as browsers write it, an origin with "*." before its domain (all
// hosts below the domain), or "*". Returns what is wrong, or an empty string.
[[nodiscard]] std::string check_origin(std::string_view text);

// The origin of the page that sends the request. Empty if there is no Origin field, or more than one.
[[nodiscard]] std::string_view origin_of(const http::Request& request);

// Whether one of the origins, as check_origin() accepts them, allows this one. An empty origin is never allowed.
[[nodiscard]] bool allows_origin(const std::vector<Located<std::string>>& origins, std::string_view origin);

// Whether the origin has the request's own scheme, host and port.
[[nodiscard]] bool is_own_origin(const http::Request& request, std::string_view origin);

}  // namespace sluice::gateway
