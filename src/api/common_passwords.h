#pragma once

#include <string_view>

namespace sluice::api {

// Whether a password is one of those that are guessed first: a word of our own small list, whatever its case; one
// repeated character; or digits that only rise or only fall by one, as 12345678 and 9876543210 do.
[[nodiscard]] bool is_common_password(std::string_view password);

}  // namespace sluice::api
