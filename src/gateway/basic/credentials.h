#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::gateway::basic {

// The credentials of `Authorization: Basic ...` (RFC 7617), as views into the decoded text.
struct Credentials {
  std::string_view user;
  std::string_view password;
};

// `decoded` holds the text that the views refer to. Returns nothing if the scheme is not Basic or the value is
// malformed. Base64 is decoded strictly, so that a password has only one encoding.
[[nodiscard]] std::optional<Credentials> parse_credentials(std::string_view authorization, std::string& decoded);

}  // namespace sluice::gateway::basic
