#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::files {

// HTTP dates (RFC 9110, 5.6.7), in whole seconds since 1970.

// "Sun, 06 Nov 1994 08:49:37 GMT". Seconds before 1970 are shown as 1970, those after the year 9999 as its end.
[[nodiscard]] std::string http_date(std::int64_t second);

// One of the three forms; nothing: it is no date. A year of two digits that would lie more than 50 years after `now` is
// one of the century before.
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view text, std::int64_t now);

}  // namespace sluice::files
