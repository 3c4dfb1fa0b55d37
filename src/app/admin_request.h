#pragma once

#include <optional>
#include <string_view>

#include "http/request.h"
#include "http/response.h"

// Shared by the handlers of the admin listener.
namespace sluice::app {

[[nodiscard]] http::Response text_response(std::string_view type, std::string_view text);

// The refusal of a request that a web page may have sent, which must change nothing: one with an Origin field, or with
// a domain name as Host, because a web page's own domain may resolve to this address (DNS rebinding).
[[nodiscard]] std::optional<http::Response> refuse_browsers(const http::Request& request);

}  // namespace sluice::app
