#pragma once

#include <string>
#include <string_view>

namespace sluice {

// The documentation of the key `host`, the same for all kinds of routes.
inline constexpr std::string_view host_meaning =
    "Only requests for this host match: `api.example.com`, or `*.example.com` for every name below that. "
    "Without it, requests for every host match. Entries for the request's own host are tried before those "
    "for every host.";

// Returns what is wrong with a `host` from the configuration; empty if it is valid.
[[nodiscard]] std::string check_host(std::string_view text);

}  // namespace sluice
