#pragma once

#include <string>
#include <string_view>

#include "core/address.h"

// The token of the admin listener, which its clients send as `Authorization: Bearer TOKEN`.
namespace sluice::runtime {

// Returns why this cannot be a token, or an empty string.
[[nodiscard]] std::string check_admin_token(std::string_view token);

// Whether other machines can reach the address.
[[nodiscard]] inline bool needs_admin_token(const core::Address& address) {
  return address.family() != AF_UNIX && !address.is_loopback();
}

// Whether the value of an Authorization field has this token. Takes the same time for all tokens of one length.
[[nodiscard]] bool has_admin_token(std::string_view authorization, std::string_view token);

}  // namespace sluice::runtime
