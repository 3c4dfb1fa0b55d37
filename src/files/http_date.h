#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::files {

// HTTP dates (RFC 9110, 5.6.7), in whole seconds since 1970.

// "Sun, 06 Nov 1994 08:49:37 GMT". Times before 1970 or after 9999 become the nearest time in between.
[[nodiscard]] std::string http_date(std::int64_t second);

// Parses any of the three date formats. Returns nullopt if the text is not a date. A two-digit year that would be more
// than 50 years after `now` is taken to be in the past (RFC 9110, 5.6.7).
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view text, std::int64_t now);

}  // namespace sluice::files
