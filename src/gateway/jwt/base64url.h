#pragma once

#include <string>
#include <string_view>

namespace sluice::gateway::jwt {

// RFC 7515, 2: the URL's alphabet, no padding. Replaces `out` by the bytes. False: another character, an impossible
// length, or bits at the end that are not zero, so that no two texts stand for the same bytes.
[[nodiscard]] bool decode_base64url(std::string_view text, std::string& out);

[[nodiscard]] std::string encode_base64url(std::string_view bytes);

}  // namespace sluice::gateway::jwt
