#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "http/fields.h"

namespace sluice::http {

// The weight that the request's Accept fields give a media type (RFC 9110, 12.5.1), from 0 (not acceptable) to 1000.
// The most specific matching range decides. A range with parameters matches only if all of them are in `parameters`,
// the parameters of the media type; names and values are compared case-insensitively. A request without Accept accepts
// everything. A range that does not parse is ignored.
[[nodiscard]] std::uint16_t quality_of(std::span<const Field> fields, std::string_view type, std::string_view subtype,
                                       std::span<const Field> parameters = {});

// Whether a comma-separated list of tokens (TE, Connection ...) contains the token. Parameters are ignored.
[[nodiscard]] bool lists_token(std::string_view list, std::string_view token);

}  // namespace sluice::http
