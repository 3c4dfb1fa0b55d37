#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Decodes base64url without padding (RFC 7515, 2) into `out`, replacing its content. Returns false for an invalid
// character, an impossible length, or trailing bits that are not zero: the same bytes have only one encoding.
[[nodiscard]] bool decode_base64url(std::string_view text, std::string& out);

[[nodiscard]] std::string encode_base64url(std::string_view bytes);

}  // namespace sluice
