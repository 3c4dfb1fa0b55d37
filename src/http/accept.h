#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "http/fields.h"

namespace sluice::http {

// How much a client wants a media type (RFC 9110, 12.5.1): 0 (not at all) to 1000, by the most specific of its ranges
// that matches. A range with parameters matches where `parameters`, the media type's own, hold each of them; names and
// values compare without case. A request without Accept takes everything. A range that does not parse is passed over.
[[nodiscard]] std::uint16_t quality_of(std::span<const Field> fields, std::string_view type, std::string_view subtype,
                                       std::span<const Field> parameters = {});

// Whether a comma-separated list of tokens (TE, Connection ...) holds the token; parameters are passed over.
[[nodiscard]] bool lists_token(std::string_view list, std::string_view token);

}  // namespace sluice::http
